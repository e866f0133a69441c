SELECT
    kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
    class, code, message, fingerprint, cause, delay_us, worker, asked_us
FROM attempts WHERE kind = ?1 AND unit_id = ?2 AND stage = ?3 AND attempt > ?4
ORDER BY attempt LIMIT ?5
