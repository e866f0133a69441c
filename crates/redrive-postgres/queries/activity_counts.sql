SELECT
    kind, outcome, class, date_trunc('minute', ended_at) AS minute, count(*),
    coalesce(sum(greatest(extract(epoch FROM ended_at - started_at) * 1000000, 0)), 0)::bigint
FROM redrive.attempts WHERE id > $1 AND id <= $2
GROUP BY kind, outcome, class, minute
