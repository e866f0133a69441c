-- The bounds are TIME_BOUNDS_US.
SELECT
    kind, outcome, class, cause IS 'lost_worker' AS lost,
    (took >= 5000) + (took >= 20000) + (took >= 100000) + (took >= 500000)
        + (took >= 2000000) + (took >= 10000000) + (took >= 60000000) + (took >= 300000000) AS reached,
    (ended_at / 60000000) * 60000000 AS minute, count(*), sum(took)
FROM (
    SELECT kind, outcome, class, cause, ended_at, max(ended_at - started_at, 0) AS took
    FROM attempts WHERE id > ?1 AND id <= ?2
)
GROUP BY kind, outcome, class, lost, reached, minute
