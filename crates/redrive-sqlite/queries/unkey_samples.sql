-- Forgets what the samples at stages (?1, a JSON array of PIPELINE/STAGE) pass gates with. OR FAIL: see
-- claim_runs_in.
UPDATE OR FAIL samples SET gate_key = NULL
WHERE id IN (
    SELECT sample.id
    FROM pipeline_runs AS run
    CROSS JOIN json_each(run.stages) AS stage
    CROSS JOIN samples AS sample ON sample.run_id = run.id AND sample.claim_stage = stage.key
    WHERE run.status = 'running' AND run.pipeline || '/' || stage.value IN (SELECT value FROM json_each(?1))
        AND sample.status = 'pending' AND sample.gate_key IS NOT NULL
)
