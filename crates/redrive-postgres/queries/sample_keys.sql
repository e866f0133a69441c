-- The keys of samples at one stage that are ready, found by skipping along the index. For the runs see claim_samples.
WITH RECURSIVE live AS MATERIALIZED (
    SELECT id FROM redrive.pipeline_runs
    WHERE pipeline BETWEEN :pipeline AND :pipeline AND stages = :stages AND status = 'running'
        AND (:run_id::bigint IS NULL OR id = :run_id)
    ORDER BY pipeline, id
),
present (run_id, gate_key) AS (
    SELECT live.id, first.gate_key FROM live CROSS JOIN LATERAL (
        SELECT gate_key FROM redrive.samples
        WHERE run_id = live.id AND claim_stage = :stage AND gate_key IS NOT NULL
            AND status = 'pending' AND next_retry_at IS NULL AND lease_owner IS NULL
        ORDER BY run_id, claim_stage, gate_key LIMIT 1
    ) AS first
    UNION ALL
    SELECT present.run_id, next.gate_key FROM present CROSS JOIN LATERAL (
        SELECT gate_key FROM redrive.samples
        WHERE run_id = present.run_id AND claim_stage = :stage AND gate_key > present.gate_key
            AND status = 'pending' AND next_retry_at IS NULL AND lease_owner IS NULL
        ORDER BY run_id, claim_stage, gate_key LIMIT 1
    ) AS next
)
SELECT DISTINCT gate_key FROM present ORDER BY gate_key
