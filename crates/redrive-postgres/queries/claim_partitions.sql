-- Many rows of work, locked since they were read, each for a new run. For the LIMIT see finish_runs.
UPDATE redrive.partition_work AS work SET
    lease_owner = :owner, lease_epoch = work.lease_epoch + 1, lease_until = :lease_until,
    run_id = taken.run_id
FROM (
    SELECT * FROM unnest(:id::bigint[], :run_id::text[]) AS taken (id, run_id) LIMIT cardinality(:id)
) AS taken
WHERE work.id = taken.id
