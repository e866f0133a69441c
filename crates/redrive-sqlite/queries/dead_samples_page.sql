-- samples_page for dead letters, which have their own index.
SELECT samples.id, samples.run_id, pipeline_runs.pipeline, line,
    CASE WHEN ?12 OR data IS NULL THEN data ELSE 'null' END, samples.status, stage,
    pipeline_runs.stages ->> stage, attempts, attempts_at_reset, retry_count, deferrals, next_retry_at,
    first_attempt_at, last_attempt_at, error_class, error_code, error_message, fingerprint, skip_reason,
    samples.lease_owner, samples.lease_epoch, samples.lease_until
FROM samples INDEXED BY samples_dead CROSS JOIN pipeline_runs ON pipeline_runs.id = samples.run_id
WHERE samples.status = 'dlq' AND samples.id > ?10
    AND (?1 IS NULL OR samples.run_id = ?1)
    AND (?2 IS NULL OR pipeline_runs.pipeline = ?2)
    AND (?3 IS NULL OR ?3 = 'dlq')
    AND (?4 IS NULL OR CASE WHEN data IS NULL THEN 'source' ELSE pipeline_runs.stages ->> stage END = ?4)
    AND (?5 IS NULL OR instr(error_message, ?5) > 0)
    AND (?6 IS NULL OR error_code = ?6)
    AND (?7 IS NULL OR fingerprint = ?7)
    AND (?8 IS NULL OR last_attempt_at >= ?8)
    AND (?9 IS NULL OR last_attempt_at < ?9)
ORDER BY samples.id LIMIT ?11
