-- Runs without their payloads and results.
SELECT
    id, queue, category, '', submitted_at, not_before, idempotency_key, status, attempts,
    attempts_at_reset, retry_count, deferrals, next_retry_at, first_attempt_at, error_class,
    error_message, NULL, lease_owner, lease_epoch, lease_until, ready, due_at, error_code,
    fingerprint, last_failure_at
FROM runs WHERE id IN (SELECT value FROM json_each(?1))
