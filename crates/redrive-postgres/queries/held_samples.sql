-- How many samples of stages (:places, each PIPELINE/STAGE) are held: those with one key (:key), or all.
-- A claim through an open gate without limits notes no keys: those samples count for every key.
SELECT count(*)
FROM redrive.pipeline_runs AS run
CROSS JOIN LATERAL unnest(run.stages) WITH ORDINALITY AS stage (name, place)
JOIN redrive.samples AS sample ON sample.run_id = run.id AND sample.claim_stage = stage.place - 1
WHERE run.status = 'running' AND run.pipeline || '/' || stage.name = ANY (:places)
    AND sample.status = 'pending' AND sample.next_retry_at IS NULL AND sample.lease_owner IS NOT NULL
    AND (:key::text IS NULL OR sample.gate_key IS NULL OR sample.gate_key = :key)
