-- How many runs of queues (:places) could be claimed now, up to a limit: those of one category (:key), or all.
SELECT count(*) FROM (
    SELECT FROM redrive.ready_runs
    WHERE queue = ANY (:places) AND (:key::text IS NULL OR category = :key)
    LIMIT :limit::bigint
) AS waiting
