-- Scans the ids and skips runs that do not match: a page of rare runs may read every run after its
-- start. An index per filter would make every claim and finish more expensive instead. Without data (?6)
-- payloads and results are not read.
SELECT
    id, queue, category, CASE WHEN ?6 THEN payload ELSE 'null' END, submitted_at, not_before, idempotency_key, status, attempts,
    attempts_at_reset, retry_count, deferrals, next_retry_at, first_attempt_at, error_class,
    error_message, CASE WHEN ?6 THEN result END, lease_owner, lease_epoch, lease_until, ready, due_at
FROM runs
WHERE id > ?1 AND (?3 IS NULL OR queue = ?3) AND (?4 IS NULL OR category = ?4)
    AND (?5 IS NULL OR status = ?5)
ORDER BY id LIMIT ?2
