-- Attempts of a run by stage, outcome and code.
SELECT attempts.stage, outcome, code, count(*)
FROM samples CROSS JOIN attempts ON attempts.kind = 'sample' AND attempts.unit_id = samples.id
WHERE samples.run_id = ?1
GROUP BY attempts.stage, outcome, code ORDER BY attempts.stage, outcome, code
