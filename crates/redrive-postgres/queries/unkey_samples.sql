-- Forgets what the samples at stages (:places, each PIPELINE/STAGE) pass gates with.
UPDATE redrive.samples AS sample SET gate_key = NULL
FROM redrive.pipeline_runs AS run CROSS JOIN LATERAL unnest(run.stages) WITH ORDINALITY AS stage (name, place)
WHERE sample.run_id = run.id AND sample.claim_stage = stage.place - 1
    AND run.status = 'running' AND run.pipeline || '/' || stage.name = ANY (:places)
    AND sample.status = 'pending' AND sample.gate_key IS NOT NULL
