-- Of running runs of a pipeline (:pipeline) with the same stages (:stages), or of one run (:run_id); at one
-- stage (:stage).
SELECT min(first.next_retry_at)
FROM redrive.pipeline_runs AS run
CROSS JOIN LATERAL (
    SELECT next_retry_at FROM redrive.samples
    WHERE run_id = run.id AND claim_stage = :stage AND next_retry_at IS NOT NULL
    ORDER BY next_retry_at LIMIT 1
) AS first
WHERE run.pipeline = :pipeline AND run.stages = :stages AND run.status = 'running'
    AND (:run_id::bigint IS NULL OR run.id = :run_id)
