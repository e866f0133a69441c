-- Inserts or updates the work of many partitions.
INSERT INTO redrive.partition_work (
    partition_id, source, customer_id, kind, lane, requested_at, requested_by, run_id, lease_owner,
    lease_epoch, lease_until, paused_at, paused_by, pause_reason
)
SELECT
    partition_id, source, customer_id, kind, lane, requested_at, requested_by, run_id, lease_owner,
    lease_epoch, lease_until, paused_at, paused_by, pause_reason
FROM unnest(
    :partition_id::bigint[], :source::text[], :customer_id::text[], :kind::text[], :lane::text[],
    :requested_at::timestamptz[], :requested_by::text[], :run_id::text[], :lease_owner::text[],
    :lease_epoch::bigint[], :lease_until::timestamptz[], :paused_at::timestamptz[],
    :paused_by::text[], :pause_reason::text[]
) WITH ORDINALITY AS given (
    partition_id, source, customer_id, kind, lane, requested_at, requested_by, run_id, lease_owner, lease_epoch,
    lease_until, paused_at, paused_by, pause_reason, place
)
ORDER BY place
ON CONFLICT (partition_id) DO UPDATE SET
    kind = excluded.kind, lane = excluded.lane, requested_at = excluded.requested_at,
    requested_by = excluded.requested_by, run_id = excluded.run_id,
    lease_owner = excluded.lease_owner, lease_epoch = excluded.lease_epoch,
    lease_until = excluded.lease_until, paused_at = excluded.paused_at,
    paused_by = excluded.paused_by, pause_reason = excluded.pause_reason
