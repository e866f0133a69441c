-- The samples at one stage that could be claimed, each with the key that it passes gates with: of each run the due ones (:now),
-- the longest waiting first, then the ready ones, by id. They are no more than the runs read ahead. For the runs see
-- claim_samples.
WITH live AS MATERIALIZED (
    SELECT id FROM redrive.pipeline_runs
    WHERE pipeline BETWEEN :pipeline AND :pipeline AND stages = :stages AND status = 'running'
        AND (:run_id::bigint IS NULL OR id = :run_id)
    ORDER BY pipeline, id
)
SELECT taken.id, taken.gate_key FROM live CROSS JOIN LATERAL (
    SELECT id, gate_key FROM (
        SELECT id, gate_key FROM redrive.samples
        WHERE run_id = live.id AND claim_stage = :stage AND next_retry_at <= :now
        ORDER BY next_retry_at
    ) AS waiting
    UNION ALL
    SELECT id, gate_key FROM (
        SELECT id, gate_key FROM redrive.samples
        WHERE (run_id, claim_stage) >= (live.id, :stage) AND (run_id, claim_stage) <= (live.id, :stage)
            AND status = 'pending' AND next_retry_at IS NULL AND lease_owner IS NULL
        ORDER BY run_id, claim_stage, id
    ) AS ready
) AS taken
