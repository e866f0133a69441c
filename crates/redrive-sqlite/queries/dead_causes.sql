-- Causes of dead letters, the most frequent first.
SELECT fingerprint, run.pipeline,
    CASE WHEN attempts = 0 THEN 'source' ELSE run.stages ->> stage END AS stage_name,
    error_code,
    -- SQLite takes the other columns from the row with the minimum.
    error_message, min(samples.id), count(*) AS deaths, max(last_attempt_at)
FROM pipeline_runs AS run CROSS JOIN samples INDEXED BY samples_dlq
    ON samples.run_id = run.id AND samples.status = 'dlq'
WHERE {selection}
GROUP BY fingerprint, run.pipeline, stage_name, error_code
ORDER BY deaths DESC, min(samples.id) LIMIT ?1
