-- The work of many partitions, new or changed.
INSERT INTO redrive.partition_work (
    partition_id, source, kind, lane, requested_at, requested_by, run_id, lease_owner, lease_epoch,
    lease_until, paused_at, paused_by, pause_reason
)
SELECT
    partition_id, source, kind, lane, requested_at, requested_by, run_id, lease_owner, lease_epoch,
    lease_until, paused_at, paused_by, pause_reason
FROM unnest(
    $1::bigint[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[],
    $8::text[], $9::bigint[], $10::timestamptz[], $11::timestamptz[], $12::text[], $13::text[]
) WITH ORDINALITY AS given (
    partition_id, source, kind, lane, requested_at, requested_by, run_id, lease_owner, lease_epoch,
    lease_until, paused_at, paused_by, pause_reason, place
)
ORDER BY place
ON CONFLICT (partition_id) DO UPDATE SET
    kind = excluded.kind, lane = excluded.lane, requested_at = excluded.requested_at,
    requested_by = excluded.requested_by, run_id = excluded.run_id,
    lease_owner = excluded.lease_owner, lease_epoch = excluded.lease_epoch,
    lease_until = excluded.lease_until, paused_at = excluded.paused_at,
    paused_by = excluded.paused_by, pause_reason = excluded.pause_reason
