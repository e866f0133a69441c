-- One dead letter, guarded by the state that was read. The ledger may have attempts at the first stage.
UPDATE samples SET
    status = 'pending', data = ?2, gate_key = NULL, stage = 0, claim_stage = 0, retry_count = 0, deferrals = 0, first_attempt_at = NULL,
    (attempts, attempts_at_reset) = (
        SELECT count(*), count(*) FROM attempts AS past
        WHERE past.kind = 'sample' AND past.unit_id = samples.id
            AND past.stage = (SELECT stages ->> 0 FROM pipeline_runs WHERE id = samples.run_id)
    )
WHERE id = ?1 AND status = 'dlq'
