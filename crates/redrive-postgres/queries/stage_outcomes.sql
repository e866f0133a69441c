-- How the attempts of a run ended at which stage, and with which code.
SELECT attempts.stage, attempts.outcome, attempts.code, count(*)
FROM redrive.samples JOIN redrive.attempts
    ON attempts.kind = 'sample' AND attempts.unit_id = samples.id
WHERE samples.run_id = $1
GROUP BY attempts.stage, attempts.outcome, attempts.code
ORDER BY attempts.stage, attempts.outcome, attempts.code
