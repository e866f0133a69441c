-- Of the runs of a pipeline ($1) with the same stages ($2), or of one of them ($3), that go on; at a
-- stage ($4).
SELECT min(first.next_retry_at)
FROM redrive.pipeline_runs AS run
CROSS JOIN LATERAL (
    SELECT next_retry_at FROM redrive.samples
    WHERE run_id = run.id AND claim_stage = $4 AND next_retry_at IS NOT NULL
    ORDER BY next_retry_at LIMIT 1
) AS first
WHERE run.pipeline = $1 AND run.stages = $2 AND run.status = 'running'
    AND ($3::bigint IS NULL OR run.id = $3)
