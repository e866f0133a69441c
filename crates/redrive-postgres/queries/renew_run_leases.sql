-- Many leases. Returns those that were still held. For the LIMIT see finish_runs.
UPDATE redrive.runs AS run SET lease_until = greatest(run.lease_until, :lease_until)
FROM (
    SELECT * FROM unnest(:id::bigint[], :epoch::bigint[]) AS held (id, epoch) LIMIT cardinality(:id)
) AS held
WHERE run.id = held.id AND run.lease_epoch = held.epoch AND run.status = 'processing'
RETURNING run.id, run.lease_epoch
