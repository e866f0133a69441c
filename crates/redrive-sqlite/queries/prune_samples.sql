-- A sample that is unchanged since it was archived (?3 to ?5), if prunable_samples still finds it.
DELETE FROM samples
WHERE id = ?3 AND attempts = ?4 AND lease_epoch = ?5 AND status <> 'pending'
    AND (last_attempt_at IS NULL OR last_attempt_at < ?1)
    AND EXISTS (
        SELECT 1 FROM pipeline_runs
        WHERE pipeline_runs.id = samples.run_id
            AND pipeline_runs.status <> 'running' AND pipeline_runs.ended_at < ?1
            AND (?2 IS NULL OR pipeline_runs.pipeline = ?2)
    )
RETURNING run_id, status
