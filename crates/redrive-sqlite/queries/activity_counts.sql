SELECT
    kind, outcome, class, (ended_at / 60000000) * 60000000 AS minute, count(*),
    sum(max(ended_at - started_at, 0))
FROM attempts WHERE id > ?1 AND id <= ?2
GROUP BY kind, outcome, class, minute
