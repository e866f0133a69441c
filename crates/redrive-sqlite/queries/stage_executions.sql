-- Samples of a run by stage and number of attempts.
SELECT stage, executions, count(*)
FROM (
    SELECT attempts.stage AS stage, max(attempt) AS executions
    FROM samples CROSS JOIN attempts
        ON attempts.kind = 'sample' AND attempts.unit_id = samples.id
    WHERE samples.run_id = ?1
    GROUP BY samples.id, attempts.stage
)
GROUP BY stage, executions ORDER BY stage, executions
