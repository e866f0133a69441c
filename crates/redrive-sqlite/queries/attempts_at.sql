-- The attempts at some units (?2, a JSON array) after a position.
SELECT
    kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
    class, code, message, fingerprint, cause, delay_us, worker, asked_us
FROM attempts
WHERE kind = ?1 AND unit_id IN (SELECT value FROM json_each(?2))
    AND unit_id >= ?3 AND (unit_id, stage, attempt) > (?3, ?4, ?5)
ORDER BY unit_id, stage, attempt LIMIT ?6
