-- Samples at one stage that a claim behind gates has to key, with their data: of each run those that are due (:now), which become
-- ready, and the ready ones without a key. For the runs see claim_samples.
WITH live AS MATERIALIZED (
    SELECT id FROM redrive.pipeline_runs
    WHERE pipeline BETWEEN :pipeline AND :pipeline AND stages = :stages AND status = 'running'
        AND (:run_id::bigint IS NULL OR id = :run_id)
    ORDER BY pipeline, id
)
SELECT taken.id, taken.data FROM live CROSS JOIN LATERAL (
    SELECT id, data FROM (
        SELECT id, data FROM redrive.samples
        WHERE run_id = live.id AND claim_stage = :stage AND next_retry_at <= :now
        ORDER BY next_retry_at LIMIT :limit::bigint
    ) AS waiting
    UNION ALL
    SELECT id, data FROM (
        SELECT id, data FROM redrive.samples
        WHERE (run_id, claim_stage) >= (live.id, :stage) AND (run_id, claim_stage) <= (live.id, :stage)
            AND gate_key IS NULL AND status = 'pending' AND next_retry_at IS NULL AND lease_owner IS NULL
        ORDER BY run_id, claim_stage, gate_key, id LIMIT :limit::bigint
    ) AS ready
) AS taken
LIMIT :limit::bigint
