-- The page ends with the run that reaches its most bytes; lengths are known without reading the values.
SELECT
    id, queue, category, payload, submitted_at, not_before, idempotency_key, status, attempts,
    attempts_at_reset, retry_count, deferrals, next_retry_at, first_attempt_at, error_class,
    error_message, result, lease_owner, lease_epoch, lease_until, ready, due_at, error_code,
    fingerprint, last_failure_at
FROM (
    SELECT *, sum(octet_length(payload) + coalesce(octet_length(result), 0)
            + coalesce(octet_length(error_message), 0))
        OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM (
        SELECT
            id, queue, category,
            CASE WHEN :with_data::boolean THEN payload ELSE '' END AS payload, submitted_at, not_before, idempotency_key, status, attempts,
            attempts_at_reset, retry_count, deferrals, next_retry_at, first_attempt_at, error_class,
            error_message,
            CASE WHEN :with_data THEN result END AS result, lease_owner, lease_epoch, lease_until, ready, due_at,
            error_code, fingerprint, last_failure_at
        FROM redrive.runs
        WHERE id > :after AND {selection}
        ORDER BY id LIMIT :limit::bigint
    ) AS matching
) AS page
WHERE coalesce(bytes_before, 0) < :max_bytes::bigint
ORDER BY id
