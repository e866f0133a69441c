-- Walks the ids and skips what does not match: a page of rare runs may read every run after its start. An
-- index for each filter would make every claim and finish more expensive.
SELECT
    id, queue, category, payload, submitted_at, not_before, idempotency_key, status, attempts,
    attempts_at_reset, retry_count, deferrals, next_retry_at, first_attempt_at, error_class,
    error_message, result, lease_owner, lease_epoch, lease_until, ready, due_at
FROM redrive.runs
WHERE id > :after AND (:queue::text IS NULL OR queue = :queue)
    AND (:category::text IS NULL OR category = :category)
    AND (:status::text IS NULL OR status = :status)
ORDER BY id LIMIT :limit::bigint
