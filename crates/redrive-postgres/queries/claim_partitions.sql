-- Many rows of work, which are locked since they were found, each for a run that begins. The LIMIT limits
-- nothing: see finish_runs.
UPDATE redrive.partition_work AS work SET
    lease_owner = :owner, lease_epoch = work.lease_epoch + 1, lease_until = :lease_until,
    run_id = taken.run_id
FROM (
    SELECT * FROM unnest(:id::bigint[], :run_id::text[]) AS taken (id, run_id) LIMIT cardinality(:id)
) AS taken
WHERE work.id = taken.id
