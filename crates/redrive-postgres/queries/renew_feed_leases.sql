-- Many leases; a run that was stopped is not read any further. The answer is those that were still held.
-- Locked in the order of their ids: see lock_pipeline_runs. The LIMIT limits nothing: see finish_runs.
UPDATE redrive.pipeline_runs AS run SET lease_until = greatest(run.lease_until, $3)
FROM (
    SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS held (id, epoch)
    ORDER BY id LIMIT cardinality($1)
) AS held
WHERE run.id = held.id AND run.lease_epoch = held.epoch AND run.lease_owner IS NOT NULL
    AND run.status = 'running'
RETURNING run.id, run.lease_epoch
