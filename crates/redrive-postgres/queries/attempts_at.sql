-- The attempts of some units (:unit_ids), after a position.
SELECT * FROM (
    SELECT
        kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
        class, code, message, fingerprint, cause, delay_us, worker, asked_us
    FROM redrive.attempts
    WHERE kind = :kind AND unit_id = ANY (:unit_ids) AND unit_id >= :after_unit
        AND (unit_id, stage, attempt) > (:after_unit, :after_stage, :after_attempt)
    UNION ALL
    SELECT
        kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
        class, code, message, fingerprint, cause, delay_us, worker, asked_us
    FROM redrive.pass_attempts
    WHERE block IN (SELECT unit_id >> 8 FROM unnest(:unit_ids::bigint[]) AS named (unit_id))
        AND kind = :kind AND unit_id = ANY (:unit_ids)
        AND (unit_id, stage, attempt) > (:after_unit, :after_stage, :after_attempt)
) AS attempt
ORDER BY unit_id, stage, attempt LIMIT :limit::bigint
