-- The work of many partitions, which is locked since it was read. The LIMIT limits nothing: see
-- finish_runs.
DELETE FROM redrive.partition_work AS work
USING (SELECT * FROM unnest(:id::bigint[]) AS done (id) LIMIT cardinality(:id)) AS done
WHERE work.partition_id = done.id
