-- Many dead letters, locked since they were read. For the LIMIT see finish_runs.
UPDATE redrive.samples AS sample SET
    status = 'pending', attempts_at_reset = sample.attempts, retry_count = 0, deferrals = 0,
    first_attempt_at = NULL
FROM (SELECT * FROM unnest(:id::bigint[]) AS named (id) LIMIT cardinality(:id)) AS named
WHERE sample.id = named.id AND sample.status = 'dlq' AND sample.data IS NOT NULL
