-- Many leases, locked in the order of their rows: see lock_partition_work. Returns those that were still
-- held. For the LIMIT see finish_runs.
UPDATE redrive.partition_work AS work SET lease_until = greatest(work.lease_until, :lease_until)
FROM (
    SELECT * FROM unnest(:id::bigint[], :epoch::bigint[]) AS held (id, epoch)
    ORDER BY id LIMIT cardinality(:id)
) AS held
WHERE work.id = held.id AND work.lease_epoch = held.epoch AND work.lease_owner IS NOT NULL
RETURNING work.id, work.lease_epoch
