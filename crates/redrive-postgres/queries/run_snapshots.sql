-- Runs without their payloads and results.
SELECT
    id, queue, category, '', submitted_at, not_before, idempotency_key, status, attempts,
    attempts_at_reset, retry_count, deferrals, next_retry_at, first_attempt_at, error_class,
    error_message, NULL::text, lease_owner, lease_epoch, lease_until, ready, due_at, error_code,
    fingerprint, last_failure_at
FROM redrive.run_records WHERE id = ANY (:ids) ORDER BY id
