-- Many leases. The answer is those that were still held.
-- The LIMIT limits nothing: see finish_runs.
UPDATE redrive.runs AS run SET lease_until = greatest(run.lease_until, $3)
FROM (
    SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS held (id, epoch) LIMIT cardinality($1)
) AS held
WHERE run.id = held.id AND run.lease_epoch = held.epoch AND run.status = 'processing'
RETURNING run.id, run.lease_epoch
