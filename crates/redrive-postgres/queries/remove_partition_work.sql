-- The work of many partitions, which is locked since it was read. The LIMIT limits nothing: see
-- finish_runs.
DELETE FROM redrive.partition_work AS work
USING (SELECT * FROM unnest($1::bigint[]) AS done (id) LIMIT cardinality($1)) AS done
WHERE work.partition_id = done.id
