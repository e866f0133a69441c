-- How long runs waited for their first attempt since they could start. The bounds are TIME_BOUNDS_US.
SELECT
    width_bucket(waited, ARRAY[5000, 20000, 100000, 500000, 2000000, 10000000, 60000000, 300000000]::bigint[])::bigint AS reached,
    count(*), coalesce(sum(waited), 0)::bigint
FROM (
    SELECT greatest((extract(epoch FROM
        attempts.started_at - greatest(runs.submitted_at, runs.not_before)) * 1000000)::bigint, 0) AS waited
    FROM (
        SELECT unit_id, started_at FROM (
            -- OFFSET keeps the other conditions, and another index, out of here.
            SELECT kind, attempt, unit_id, started_at FROM redrive.attempts
            WHERE id > :after AND id <= :end OFFSET 0
        ) AS ended
        WHERE kind = 'run' AND attempt = 1
        UNION ALL
        SELECT unit_id, started_at FROM redrive.pass_attempts
        WHERE pass_id > :after AND pass_id <= :end AND attempt = 1
    ) AS attempts
    CROSS JOIN LATERAL (
        SELECT submitted_at, not_before FROM redrive.runs WHERE runs.id = attempts.unit_id LIMIT 1
    ) AS runs
) AS first
GROUP BY reached
