SELECT
    kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
    class, code, message, fingerprint, cause, delay_us, worker, asked_us
FROM redrive.attempts
WHERE kind = :kind
    AND (unit_id, stage, attempt) > (:after_unit, :after_stage, :after_attempt)
ORDER BY unit_id, stage, attempt LIMIT :limit::bigint
