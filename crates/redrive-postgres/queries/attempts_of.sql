-- Attempts by which runs passed are in a table of their own.
SELECT * FROM (
    SELECT
        kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
        class, code, message, fingerprint, cause, delay_us, worker, asked_us
    FROM redrive.attempts
    WHERE kind = :kind AND unit_id = :unit_id AND stage = :stage AND attempt > :after_attempt
    UNION ALL
    SELECT
        kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
        class, code, message, fingerprint, cause, delay_us, worker, asked_us
    FROM redrive.pass_attempts
    WHERE block = :unit_id >> 8 AND kind = :kind AND unit_id = :unit_id AND stage = :stage
        AND attempt > :after_attempt
) AS attempt
ORDER BY attempt LIMIT :limit::bigint
