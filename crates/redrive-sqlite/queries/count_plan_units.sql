SELECT state, cause, refusal, outcome, new_cause, count(*)
FROM plan_units WHERE plan_id = ?1
GROUP BY state, cause, refusal, outcome, new_cause ORDER BY count(*) DESC, state, cause, refusal, outcome, new_cause
