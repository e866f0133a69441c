-- Goes along the ids and passes over what does not match: a page of something rare may read every run
-- after its start. An index for each filter would be paid by every claim and finish instead.
SELECT
    id, queue, category, payload, submitted_at, not_before, idempotency_key, status, attempts,
    attempts_at_reset, retry_count, deferrals, next_retry_at, first_attempt_at, error_class,
    error_message, result, lease_owner, lease_epoch, lease_until, ready, due_at
FROM runs
WHERE id > ?1 AND (?3 IS NULL OR queue = ?3) AND (?4 IS NULL OR category = ?4)
    AND (?5 IS NULL OR status = ?5)
ORDER BY id LIMIT ?2
