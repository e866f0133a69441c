-- How long runs waited for their first attempt since they could start. The bounds are TIME_BOUNDS_US.
SELECT
    width_bucket(waited, ARRAY[5000, 20000, 100000, 500000, 2000000, 10000000, 60000000, 300000000]::bigint[])::bigint AS reached,
    count(*), coalesce(sum(waited), 0)::bigint
FROM (
    SELECT greatest((extract(epoch FROM
        attempts.started_at - greatest(runs.submitted_at, runs.not_before)) * 1000000)::bigint, 0) AS waited
    FROM redrive.attempts JOIN redrive.runs ON runs.id = attempts.unit_id
    WHERE attempts.id > :after AND attempts.id <= :end AND attempts.kind = 'run' AND attempts.attempt = 1
) AS first
GROUP BY reached
