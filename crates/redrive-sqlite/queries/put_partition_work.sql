-- Inserts or updates the work row of one partition.
INSERT INTO partition_work (
    partition_id, source, kind, lane, requested_at, requested_by, run_id, lease_owner, lease_epoch,
    lease_until, paused_at, paused_by, pause_reason, customer_id
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
ON CONFLICT (partition_id) DO UPDATE SET
    kind = excluded.kind, lane = excluded.lane, requested_at = excluded.requested_at,
    requested_by = excluded.requested_by, run_id = excluded.run_id,
    lease_owner = excluded.lease_owner, lease_epoch = excluded.lease_epoch,
    lease_until = excluded.lease_until, paused_at = excluded.paused_at,
    paused_by = excluded.paused_by, pause_reason = excluded.pause_reason
