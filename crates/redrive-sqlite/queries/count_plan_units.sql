SELECT state, cause, coalesce(reason, refusal) AS refusal, outcome, new_cause, count(*)
FROM plan_units WHERE plan_id = ?1
GROUP BY 1, 2, 3, 4, 5 ORDER BY count(*) DESC, 1, 2, 3, 4, 5
