-- Many leases; a source is not renewed if its run has stopped. Returns the leases that were still held. Locks
-- runs in the order of their ids: see lock_pipeline_runs. For the LIMIT see finish_runs.
UPDATE redrive.pipeline_runs AS run SET lease_until = greatest(run.lease_until, :lease_until)
FROM (
    SELECT * FROM unnest(:id::bigint[], :epoch::bigint[]) AS held (id, epoch)
    ORDER BY id LIMIT cardinality(:id)
) AS held
WHERE run.id = held.id AND run.lease_epoch = held.epoch AND run.lease_owner IS NOT NULL
    AND run.status = 'running'
RETURNING run.id, run.lease_epoch
