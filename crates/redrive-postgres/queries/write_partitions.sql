-- Many partitions, which are locked since they were read. The LIMIT limits nothing: see finish_runs.
UPDATE redrive.partition_state AS state SET
    status = given.status, current_run_id = given.current_run_id,
    schema_version = given.schema_version, record_count = given.record_count,
    attempt_count = given.attempt_count, error_message = given.error_message,
    updated_at = given.updated_at
FROM (
    SELECT * FROM unnest(
        $1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[],
        $8::timestamptz[]
    ) AS given (
        id, status, current_run_id, schema_version, record_count, attempt_count, error_message,
        updated_at
    ) LIMIT cardinality($1)
) AS given
WHERE state.id = given.id
