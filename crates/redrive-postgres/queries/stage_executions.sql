-- How many samples of a run had how many executions at which stage.
SELECT stage, executions, count(*)
FROM (
    SELECT attempts.stage, max(attempts.attempt) AS executions
    FROM redrive.samples JOIN redrive.attempts
        ON attempts.kind = 'sample' AND attempts.unit_id = samples.id
    WHERE samples.run_id = $1
    GROUP BY samples.id, attempts.stage
) AS executed
GROUP BY stage, executions ORDER BY stage, executions
