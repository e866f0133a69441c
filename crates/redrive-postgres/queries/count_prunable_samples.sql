-- The number of samples that prunable_samples finds.
SELECT count(*)
FROM redrive.samples JOIN redrive.pipeline_runs AS run ON run.id = samples.run_id
WHERE samples.status <> 'pending'
    AND (samples.last_attempt_at IS NULL OR samples.last_attempt_at < :before)
    AND run.status <> 'running' AND run.ended_at < :before
    AND (:pipeline::text IS NULL OR run.pipeline = :pipeline)
