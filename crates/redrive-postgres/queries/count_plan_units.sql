SELECT state, cause, coalesce(reason, refusal) AS refusal, outcome, new_cause, count(*)
FROM redrive.plan_units WHERE plan_id = :plan_id
GROUP BY 1, 2, 3, 4, 5 ORDER BY count(*) DESC, 1, 2, 3, 4, 5
