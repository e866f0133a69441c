-- The bounds are TIME_BOUNDS_US.
SELECT
    kind, outcome, class, cause IS NOT DISTINCT FROM 'lost_worker' AS lost,
    width_bucket(took, ARRAY[5000, 20000, 100000, 500000, 2000000, 10000000, 60000000, 300000000]::bigint[])::bigint AS reached,
    date_trunc('minute', ended_at) AS minute, count(*), coalesce(sum(took), 0)::bigint
FROM (
    SELECT
        kind, outcome, class, cause, ended_at,
        greatest((extract(epoch FROM ended_at - started_at) * 1000000)::bigint, 0) AS took
    FROM (
        SELECT kind, outcome, class, cause, started_at, ended_at FROM redrive.attempts
        WHERE id > :after AND id <= :end
        UNION ALL
        SELECT kind, outcome, class, cause, started_at, ended_at FROM redrive.pass_attempts
        WHERE pass_id > :after AND pass_id <= :end
    ) AS ended
) AS attempt
GROUP BY kind, outcome, class, lost, reached, minute
