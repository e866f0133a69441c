-- Many leases, locked in the order of their rows: see lock_partition_work. The answer is those that were
-- still held.
-- The LIMIT limits nothing: see finish_runs.
UPDATE redrive.partition_work AS work SET lease_until = greatest(work.lease_until, $3)
FROM (
    SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS held (id, epoch)
    ORDER BY id LIMIT cardinality($1)
) AS held
WHERE work.id = held.id AND work.lease_epoch = held.epoch AND work.lease_owner IS NOT NULL
RETURNING work.id, work.lease_epoch
