-- The number of samples that prunable_samples finds.
SELECT count(*)
FROM samples CROSS JOIN pipeline_runs ON pipeline_runs.id = samples.run_id
WHERE samples.status <> 'pending'
    AND (last_attempt_at IS NULL OR last_attempt_at < ?1)
    AND pipeline_runs.status <> 'running' AND pipeline_runs.ended_at < ?1
    AND (?2 IS NULL OR pipeline_runs.pipeline = ?2)
