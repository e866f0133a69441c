-- Walks the keys between two positions and skips what does not match. The leading parts of a key that a
-- filter gives are in the positions; only a part that is missing before a given one is walked.
SELECT
    state.id, state.source, state.customer_id, state.query_name, state.logical_date, state.status,
    state.current_run_id, state.schema_version, state.record_count, state.attempt_count,
    state.error_message, state.updated_at,
    (
        SELECT started_at FROM redrive.attempts
        WHERE kind = 'partition' AND unit_id = state.id AND stage = '' AND attempt = 1
    ),
    work.id, work.kind, work.lane, work.requested_at, work.requested_by, work.run_id,
    work.lease_owner, work.lease_epoch, work.lease_until, work.paused_at, work.paused_by,
    work.pause_reason, failure.class, failure.code, failure.fingerprint, failure.failed_at,
    CASE failure.class WHEN 'rate_limited' THEN (
        SELECT asked_us FROM redrive.attempts
        WHERE kind = 'partition' AND unit_id = state.id AND stage = '' AND attempt = state.attempt_count
    ) END
FROM redrive.partition_state AS state
LEFT JOIN LATERAL (
    SELECT * FROM redrive.partition_work WHERE partition_id = state.id LIMIT 1
) AS work ON true
LEFT JOIN LATERAL (
    SELECT * FROM redrive.partition_failures WHERE partition_id = state.id LIMIT 1
) AS failure ON true
WHERE (state.source, state.customer_id, state.query_name, state.logical_date)
        > (:after_source, :after_customer_id, :after_query_name, :after_logical_date)
    AND (state.source, state.customer_id, state.query_name, state.logical_date)
        <= (:last_source, :last_customer_id, :last_query_name, :last_logical_date)
    AND {selection}
ORDER BY state.source {order}, state.customer_id {order}, state.query_name {order}, state.logical_date {order}
LIMIT :limit::bigint
