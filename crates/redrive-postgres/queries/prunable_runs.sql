-- Finished runs without an attempt or journal entry since a time (:before).
SELECT
    id, queue, category, payload, submitted_at, not_before, idempotency_key, status, attempts,
    attempts_at_reset, retry_count, deferrals, next_retry_at, first_attempt_at, error_class,
    error_message, result, lease_owner, lease_epoch, lease_until, ready, due_at, error_code,
    fingerprint, last_failure_at
FROM redrive.run_records AS runs
WHERE id > :after AND submitted_at < :before AND (:queue::text IS NULL OR queue = :queue)
    AND (
        status = 'passed' OR status = 'needs_review' OR status = 'failed' OR status = 'cancelled'
        OR status = 'error' AND next_retry_at IS NULL
    )
    AND (passed_at >= :before) IS NOT TRUE
    AND NOT EXISTS (
        SELECT FROM redrive.attempts
        WHERE attempts.kind = 'run' AND attempts.unit_id = runs.id AND attempts.ended_at >= :before
    )
    AND NOT EXISTS (
        SELECT FROM redrive.journal
        WHERE hashtextextended(unit, 0) = hashtextextended('run:' || runs.id, 0)
            AND unit = 'run:' || runs.id AND at >= :before
    )
ORDER BY id LIMIT :limit::bigint
