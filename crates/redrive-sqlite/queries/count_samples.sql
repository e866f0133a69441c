SELECT count(*)
FROM samples JOIN pipeline_runs ON pipeline_runs.id = samples.run_id
WHERE true
    AND (?1 IS NULL OR samples.run_id = ?1)
    AND (?2 IS NULL OR pipeline_runs.pipeline = ?2)
    AND (?3 IS NULL OR samples.status = ?3)
    AND (?4 IS NULL OR CASE WHEN data IS NULL THEN 'source' ELSE pipeline_runs.stages ->> stage END = ?4)
    AND (?5 IS NULL OR instr(error_message, ?5) > 0)
    AND (?6 IS NULL OR error_code = ?6)
    AND (?7 IS NULL OR fingerprint = ?7)
    AND (?8 IS NULL OR last_attempt_at >= ?8)
    AND (?9 IS NULL OR last_attempt_at < ?9)
