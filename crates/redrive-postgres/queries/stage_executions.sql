-- How many samples of a run had how many executions at which stage. For LATERAL see idempotent_runs.
SELECT executed.stage, executions, count(*)
FROM redrive.samples
CROSS JOIN LATERAL (
    SELECT stage, max(attempt) AS executions FROM redrive.attempts
    WHERE kind = 'sample' AND unit_id = samples.id
    GROUP BY stage
) AS executed
WHERE samples.run_id = :run_id
GROUP BY executed.stage, executions ORDER BY executed.stage, executions
