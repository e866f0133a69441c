-- Many dead letters, locked since they were read. The ledger may have attempts at the first stage. For the LIMIT see
-- finish_runs.
UPDATE redrive.samples AS sample SET
    status = 'pending', data = named.data, gate_key = NULL, stage = 0, claim_stage = 0, retry_count = 0, deferrals = 0,
    first_attempt_at = NULL,
    (attempts, attempts_at_reset) = (
        SELECT count(*), count(*) FROM redrive.attempts AS past
        WHERE past.kind = 'sample' AND past.unit_id = sample.id
            AND past.stage = (SELECT stages[1] FROM redrive.pipeline_runs WHERE id = sample.run_id)
    )
FROM (
    SELECT * FROM unnest(:id::bigint[], :data::text[]) AS named (id, data) LIMIT cardinality(:id)
) AS named
WHERE sample.id = named.id AND sample.status = 'dlq'
