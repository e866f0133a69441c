-- The work of many partitions, locked since it was read. For the LIMIT see finish_runs.
DELETE FROM redrive.partition_work AS work
USING (SELECT * FROM unnest(:id::bigint[]) AS done (id) LIMIT cardinality(:id)) AS done
WHERE work.partition_id = done.id
