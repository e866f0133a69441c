-- Many partitions, locked since they were read. For the LIMIT see finish_runs.
UPDATE redrive.partition_state AS state SET
    status = given.status, current_run_id = given.current_run_id,
    schema_version = given.schema_version, record_count = given.record_count,
    attempt_count = given.attempt_count, error_message = given.error_message,
    updated_at = given.updated_at
FROM (
    SELECT * FROM unnest(
        :id::bigint[], :status::text[], :current_run_id::text[], :schema_version::text[],
        :record_count::bigint[], :attempt_count::bigint[], :error_message::text[],
        :updated_at::timestamptz[]
    ) AS given (
        id, status, current_run_id, schema_version, record_count, attempt_count, error_message,
        updated_at
    ) LIMIT cardinality(:id)
) AS given
WHERE state.id = given.id
