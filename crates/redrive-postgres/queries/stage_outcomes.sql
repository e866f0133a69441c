-- The outcomes and codes of the attempts of a run, by stage. For LATERAL see idempotent_runs.
SELECT ended.stage, ended.outcome, ended.code, sum(ended.attempts)::bigint
FROM redrive.samples
CROSS JOIN LATERAL (
    SELECT stage, outcome, code, count(*) AS attempts FROM redrive.attempts
    WHERE kind = 'sample' AND unit_id = samples.id
    GROUP BY stage, outcome, code
) AS ended
WHERE samples.run_id = :run_id
GROUP BY ended.stage, ended.outcome, ended.code
ORDER BY ended.stage, ended.outcome, ended.code
