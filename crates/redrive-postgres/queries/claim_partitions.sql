-- Many rows of work, which are locked since they were found, each for a run that begins. The LIMIT limits
-- nothing: see finish_runs.
UPDATE redrive.partition_work AS work SET
    lease_owner = $3, lease_epoch = work.lease_epoch + 1, lease_until = $4, run_id = taken.run_id
FROM (
    SELECT * FROM unnest($1::bigint[], $2::text[]) AS taken (id, run_id) LIMIT cardinality($1)
) AS taken
WHERE work.id = taken.id
