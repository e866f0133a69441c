-- Causes of dead letters, the most frequent first. The filter is that of samples_page.
SELECT fingerprint, pipeline_runs.pipeline,
    CASE WHEN data IS NULL THEN 'source' ELSE pipeline_runs.stages ->> stage END AS stage_name,
    error_code,
    -- SQLite takes the other columns from the row with the minimum.
    error_message, min(samples.id), count(*) AS deaths, max(last_attempt_at)
FROM pipeline_runs CROSS JOIN samples INDEXED BY samples_dlq
    ON samples.run_id = pipeline_runs.id AND samples.status = 'dlq'
WHERE (?3 IS NULL OR ?3 = 'dlq')
    AND (?1 IS NULL OR samples.run_id = ?1)
    AND (?2 IS NULL OR pipeline_runs.pipeline = ?2)
    AND (?4 IS NULL OR CASE WHEN data IS NULL THEN 'source' ELSE pipeline_runs.stages ->> stage END = ?4)
    AND (?5 IS NULL OR instr(error_message, ?5) > 0)
    AND (?6 IS NULL OR error_code = ?6)
    AND (?7 IS NULL OR fingerprint = ?7)
    AND (?8 IS NULL OR last_attempt_at >= ?8)
    AND (?9 IS NULL OR last_attempt_at < ?9)
GROUP BY fingerprint, pipeline_runs.pipeline, stage_name, error_code
ORDER BY deaths DESC, min(samples.id) LIMIT ?10
