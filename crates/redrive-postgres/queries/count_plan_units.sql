SELECT state, cause, refusal, outcome, new_cause, count(*)
FROM redrive.plan_units WHERE plan_id = :plan_id
GROUP BY state, cause, refusal, outcome, new_cause ORDER BY count(*) DESC, state, cause, refusal, outcome, new_cause
