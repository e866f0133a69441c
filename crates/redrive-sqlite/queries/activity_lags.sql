-- The wait of runs from the time they could start to their first attempt. The bounds are
-- TIME_BOUNDS_US.
SELECT
    (waited >= 5000) + (waited >= 20000) + (waited >= 100000) + (waited >= 500000)
        + (waited >= 2000000) + (waited >= 10000000) + (waited >= 60000000) + (waited >= 300000000) AS reached,
    count(*), sum(waited)
FROM (
    SELECT max(attempts.started_at - max(runs.submitted_at, coalesce(runs.not_before, 0)), 0) AS waited
    FROM attempts CROSS JOIN runs ON runs.id = attempts.unit_id
    WHERE attempts.id > ?1 AND attempts.id <= ?2 AND attempts.kind = 'run' AND attempts.attempt = 1
)
GROUP BY reached
