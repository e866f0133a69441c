-- Units that ended after they were tried again, in about :periods periods of whole seconds from the first outcome to the last.
WITH ended AS (
    SELECT outcome, ended_from AS second, units FROM redrive.plan_counts
    WHERE plan_id = :plan_id AND ended_from IS NOT NULL AND units > 0
), span AS (
    SELECT min(second) AS first, (max(second) - min(second)) / :periods::bigint + 1 AS length FROM ended
)
SELECT to_timestamp(first + (second - first) / length * length) AS started, length, outcome, sum(units)::bigint
FROM ended, span GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
