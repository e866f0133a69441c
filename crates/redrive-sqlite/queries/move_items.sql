-- One item. A reset (?6) records the count it happened at; the count itself never goes down. An attempt (?7)
-- gets the next number, which last_item_attempt reads: here, RETURNING would make a table for one row. It may name
-- the number that it comes after (?8).
UPDATE items SET
    status = ?3, updated_at = ?4, rejection_reason = coalesce(?5, rejection_reason),
    attempts_at_reset = CASE WHEN ?6 THEN upload_attempts ELSE attempts_at_reset END,
    last_attempt = last_attempt + ?7
WHERE id = ?1 AND status = ?2 AND last_attempt = coalesce(?8, last_attempt)
