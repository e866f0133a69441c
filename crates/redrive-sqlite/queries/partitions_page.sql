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
    work.pause_reason
FROM partition_state AS state LEFT JOIN partition_work AS work ON work.partition_id = state.id
WHERE (state.source, state.customer_id, state.query_name, state.logical_date) > (?1, ?2, ?3, ?4)
    AND (state.source, state.customer_id, state.query_name, state.logical_date) <= (?5, ?6, ?7, ?8)
    AND (?9 IS NULL OR state.source = ?9) AND (?10 IS NULL OR state.customer_id = ?10)
    AND (?11 IS NULL OR state.query_name = ?11) AND (?12 IS NULL OR state.logical_date >= ?12)
    AND (?13 IS NULL OR state.logical_date <= ?13) AND (?15 IS NULL OR state.status = ?15)
ORDER BY state.source, state.customer_id, state.query_name, state.logical_date LIMIT ?14
