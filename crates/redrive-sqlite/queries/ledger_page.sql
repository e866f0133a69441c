SELECT
    kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
    class, code, message, fingerprint, cause, delay_us, worker, asked_us
FROM attempts WHERE kind = ?1 AND (unit_id, stage, attempt) > (?2, ?3, ?4)
ORDER BY unit_id, stage, attempt LIMIT ?5
