-- How many samples of stages (?1, a JSON array of PIPELINE/STAGE) are held: those with one key (?2), or all.
-- A claim through an open gate without limits notes no keys: those samples count for every key.
SELECT count(*)
FROM pipeline_runs AS run
CROSS JOIN json_each(run.stages) AS stage
CROSS JOIN samples AS sample ON sample.run_id = run.id AND sample.claim_stage = stage.key
WHERE run.status = 'running' AND run.pipeline || '/' || stage.value IN (SELECT value FROM json_each(?1))
    AND sample.status = 'pending' AND sample.next_retry_at IS NULL AND sample.lease_owner IS NOT NULL
    AND (?2 IS NULL OR sample.gate_key IS NULL OR sample.gate_key = ?2)
