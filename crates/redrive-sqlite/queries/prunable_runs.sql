-- Finished runs without an attempt or a journal entry since a time (?1).
SELECT
    id, queue, category, payload, submitted_at, not_before, idempotency_key, status, attempts,
    attempts_at_reset, retry_count, deferrals, next_retry_at, first_attempt_at, error_class,
    error_message, result, lease_owner, lease_epoch, lease_until, ready, due_at, error_code,
    fingerprint, last_failure_at
FROM runs
WHERE id > ?3 AND submitted_at < ?1 AND (?2 IS NULL OR queue = ?2)
    AND (
        status = 'passed' OR status = 'needs_review' OR status = 'failed' OR status = 'cancelled'
        OR status = 'error' AND next_retry_at IS NULL
    )
    AND NOT EXISTS (
        SELECT 1 FROM attempts
        WHERE attempts.kind = 'run' AND attempts.unit_id = runs.id AND attempts.ended_at >= ?1
    )
    AND NOT EXISTS (
        SELECT 1 FROM journal WHERE journal.unit = 'run:' || runs.id AND journal.at >= ?1
    )
ORDER BY id LIMIT ?4
