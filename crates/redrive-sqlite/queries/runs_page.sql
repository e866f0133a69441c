-- Without data (?3) payloads and results are not read.
SELECT
    id, queue, category, CASE WHEN ?3 THEN payload ELSE '' END, submitted_at, not_before, idempotency_key, status, attempts,
    attempts_at_reset, retry_count, deferrals, next_retry_at, first_attempt_at, error_class,
    error_message, CASE WHEN ?3 THEN result END, lease_owner, lease_epoch, lease_until, ready, due_at, error_code,
    fingerprint, last_failure_at
FROM runs
WHERE id {beyond} ?1 AND {selection}
ORDER BY id {order} LIMIT ?2
