-- Units that are alike, of a plan that was made since they are counted.
SELECT state, cause, refusal, outcome, new_cause, sum(units)::bigint
FROM redrive.plan_counts WHERE plan_id = :plan_id AND units > 0
GROUP BY 1, 2, 3, 4, 5 ORDER BY sum(units) DESC, 1, 2, 3, 4, 5
