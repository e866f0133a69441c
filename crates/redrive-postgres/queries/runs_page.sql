-- Where matching runs are read from depends on their state: see RUNS in runs.rs.
-- The page ends with the run that reaches its most bytes; lengths are known without reading the values.
SELECT
    id, queue, category, payload, submitted_at, not_before, idempotency_key, status, attempts,
    attempts_at_reset, retry_count, deferrals, next_retry_at, first_attempt_at, error_class,
    error_message, result, lease_owner, lease_epoch, lease_until, ready, due_at, error_code,
    fingerprint, last_failure_at
FROM (
    SELECT *, sum(octet_length(payload) + coalesce(octet_length(result), 0)
            + coalesce(octet_length(error_message), 0))
        OVER (ORDER BY id {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM (
        SELECT
            record.id, record.queue, record.category,
            CASE WHEN :with_data::boolean THEN record.payload ELSE '' END AS payload, record.submitted_at,
            record.not_before, record.idempotency_key, record.status, record.attempts, record.attempts_at_reset,
            record.retry_count, record.deferrals, record.next_retry_at, record.first_attempt_at, record.error_class,
            record.error_message, CASE WHEN :with_data THEN record.result END AS result, record.lease_owner,
            record.lease_epoch, record.lease_until, record.ready, record.due_at, record.error_code,
            record.fingerprint, record.last_failure_at
        FROM (
            SELECT id FROM {runs} WHERE id {beyond} :after AND {selection}
            ORDER BY id {order} LIMIT :limit::bigint
        ) AS matching
        JOIN redrive.run_records AS record ON record.id = matching.id
    ) AS matching
) AS page
WHERE coalesce(bytes_before, 0) < :max_bytes::bigint
ORDER BY id {order}
