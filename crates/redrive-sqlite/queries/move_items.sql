-- One item. A reset or a replacement (?6) stores the current count; the count itself never decreases. An attempt
-- (?7) gets the next number, which last_item_attempt reads, because RETURNING would create a
-- temporary table for one row. ?8 is the number of the attempt before and ?9 the hash of the content,
-- if given; ?10 to ?12 are new content. ?13 to ?16 are the failure of the attempt, if it failed.
UPDATE items SET
    status = ?3, updated_at = ?4, rejection_reason = coalesce(?5, rejection_reason),
    attempts_at_reset = CASE WHEN ?6 THEN upload_attempts ELSE attempts_at_reset END,
    last_attempt = last_attempt + ?7, content_url = coalesce(?10, content_url),
    size_bytes = coalesce(?11, size_bytes), sha256 = coalesce(?12, sha256),
    error_class = iif(?7, ?13, error_class), error_code = iif(?7, ?14, error_code),
    fingerprint = iif(?7, ?15, fingerprint), last_failure_at = coalesce(?16, last_failure_at)
WHERE id = ?1 AND status = ?2 AND last_attempt = coalesce(?8, last_attempt)
    AND sha256 = coalesce(?9, sha256)
