-- One item. A reset (?6) records the count it happened at; the count itself never goes down.
UPDATE items SET
    status = ?3, updated_at = ?4, rejection_reason = coalesce(?5, rejection_reason),
    attempts_at_reset = CASE WHEN ?6 THEN upload_attempts ELSE attempts_at_reset END
WHERE id = ?1 AND status = ?2
