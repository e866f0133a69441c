-- Units that ended after they were tried again, in about ?2 periods of whole seconds from the first outcome to the last.
WITH ended AS (
    SELECT outcome, ended_from AS second, units FROM plan_counts
    WHERE plan_id = ?1 AND ended_from IS NOT NULL AND units > 0
), span AS (
    SELECT min(second) AS first, (max(second) - min(second)) / ?2 + 1 AS length FROM ended
)
SELECT (first + (second - first) / length * length) * 1000000 AS started, length, outcome, sum(units)
FROM ended, span GROUP BY started, length, outcome ORDER BY started, length, outcome
