-- The same for those that failed, which have an index of their own: the daemon reads nothing else.
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
    work.pause_reason
FROM redrive.partition_state AS state
LEFT JOIN LATERAL (
    SELECT * FROM redrive.partition_work WHERE partition_id = state.id LIMIT 1
) AS work ON true
WHERE (state.source, state.customer_id, state.query_name, state.logical_date) > ($1, $2, $3, $4)
    AND (state.source, state.customer_id, state.query_name, state.logical_date)
        <= ($5, $6, $7, $8)
    AND ($9::text IS NULL OR state.source = $9)
    AND ($10::text IS NULL OR state.customer_id = $10)
    AND ($11::text IS NULL OR state.query_name = $11)
    AND ($12::date IS NULL OR state.logical_date >= $12)
    AND ($13::date IS NULL OR state.logical_date <= $13)
    AND state.status = 'failed'
ORDER BY state.source, state.customer_id, state.query_name, state.logical_date LIMIT $14::bigint
