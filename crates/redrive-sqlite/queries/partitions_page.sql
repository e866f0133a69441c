-- Scans the keys between two positions and skips partitions that do not match. The positions
-- contain the prefix of the key that the filter gives, so only the rest is scanned.
SELECT
    state.id, state.source, state.customer_id, state.query_name, state.logical_date, state.status,
    state.current_run_id, state.schema_version, state.record_count, state.attempt_count,
    state.error_message, state.updated_at,
    (
        SELECT started_at FROM attempts
        WHERE kind = 'partition' AND unit_id = state.id AND stage = '' AND attempt = 1
    ),
    work.id, work.kind, work.lane, work.requested_at, work.requested_by, work.run_id,
    work.lease_owner, work.lease_epoch, work.lease_until, work.paused_at, work.paused_by,
    work.pause_reason, failure.class, failure.code, failure.fingerprint, failure.failed_at,
    CASE failure.class WHEN 'rate_limited' THEN (
        SELECT asked_us FROM attempts
        WHERE kind = 'partition' AND unit_id = state.id AND stage = '' AND attempt = state.attempt_count
    ) END
FROM partition_state AS state LEFT JOIN partition_work AS work ON work.partition_id = state.id
LEFT JOIN partition_failures AS failure ON failure.partition_id = state.id
WHERE (state.source, state.customer_id, state.query_name, state.logical_date) > (?1, ?2, ?3, ?4)
    AND (state.source, state.customer_id, state.query_name, state.logical_date) <= (?5, ?6, ?7, ?8)
    AND {selection}
ORDER BY state.source {order}, state.customer_id {order}, state.query_name {order}, state.logical_date {order}
LIMIT ?9
