-- Ended samples of runs that ended before a time (?1).
SELECT samples.id, samples.run_id, pipeline_runs.pipeline, line, data, samples.status, stage,
    pipeline_runs.stages ->> stage, attempts, attempts_at_reset, retry_count, deferrals, next_retry_at,
    first_attempt_at, last_attempt_at, error_class, error_code, error_message, fingerprint, skip_reason,
    samples.lease_owner, samples.lease_epoch, samples.lease_until, samples.last_failure_at
FROM samples CROSS JOIN pipeline_runs ON pipeline_runs.id = samples.run_id
WHERE samples.id > ?3 AND samples.status <> 'pending'
    AND (last_attempt_at IS NULL OR last_attempt_at < ?1)
    AND pipeline_runs.status <> 'running' AND pipeline_runs.ended_at < ?1
    AND (?2 IS NULL OR pipeline_runs.pipeline = ?2)
ORDER BY samples.id LIMIT ?4
