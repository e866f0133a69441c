-- The first samples at one stage that are ready, of each of the keys (:key) at most so many (:most): the oldest run first, then by
-- id. For the runs, and why samples are read as a range, see claim_samples.
WITH live AS MATERIALIZED (
    SELECT id FROM redrive.pipeline_runs
    WHERE pipeline BETWEEN :pipeline AND :pipeline AND stages = :stages AND status = 'running'
        AND (:run_id::bigint IS NULL OR id = :run_id)
    ORDER BY pipeline, id
)
SELECT sample.id, sample.gate_key
FROM unnest(:key::text[], :most::bigint[]) AS allowed (key, most)
CROSS JOIN LATERAL (
    SELECT ready.run_id, ready.id, ready.gate_key FROM live CROSS JOIN LATERAL (
        SELECT run_id, id, gate_key FROM redrive.samples
        WHERE (run_id, claim_stage, gate_key) >= (live.id, :stage, allowed.key)
            AND (run_id, claim_stage, gate_key) <= (live.id, :stage, allowed.key)
            AND status = 'pending' AND next_retry_at IS NULL AND lease_owner IS NULL
        ORDER BY run_id, claim_stage, gate_key, id LIMIT allowed.most
    ) AS ready
    LIMIT allowed.most
) AS sample
ORDER BY sample.run_id, sample.id
