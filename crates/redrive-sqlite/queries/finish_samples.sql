-- One sample. Changes nothing unless the sample is still held under this epoch. A sample that
-- continues to another stage starts there with empty counts; the worker ?17 keeps it until ?18, or
-- no worker does. If an operator reset the sample, the ledger may have attempts at the next stage.
UPDATE samples SET
    status = ?3, stage = ?4, claim_stage = iif(?17 IS NULL, ?4, claim_stage), data = coalesce(?5, data),
    gate_key = iif(stage = ?4, gate_key, NULL),
    attempts = CASE WHEN stage = ?4 OR attempts_at_reset = 0 THEN ?6 ELSE (
        SELECT count(*) FROM attempts AS past WHERE past.kind = 'sample' AND past.unit_id = samples.id
            AND past.stage = (SELECT stages ->> ?4 FROM pipeline_runs WHERE id = samples.run_id)
    ) END,
    attempts_at_reset = CASE WHEN stage = ?4 OR attempts_at_reset = 0 THEN attempts_at_reset ELSE (
        SELECT count(*) FROM attempts AS past WHERE past.kind = 'sample' AND past.unit_id = samples.id
            AND past.stage = (SELECT stages ->> ?4 FROM pipeline_runs WHERE id = samples.run_id)
    ) END,
    retry_count = ?7, deferrals = ?8, next_retry_at = ?9, first_attempt_at = ?10,
    last_attempt_at = ?11, error_class = ?12, error_code = ?13, error_message = ?14,
    fingerprint = ?15, skip_reason = ?16, lease_owner = ?17, lease_until = ?18,
    lease_epoch = lease_epoch + (?17 IS NOT NULL), claimed_at = iif(?17 IS NULL, claimed_at, ?19),
    last_failure_at = iif(?12 IS NULL, last_failure_at, ?19)
WHERE id = ?1 AND lease_epoch = ?2 AND lease_owner IS NOT NULL
