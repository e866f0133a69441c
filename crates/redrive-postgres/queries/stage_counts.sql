-- The samples of a run by stage: ready, held, waiting, skipped and dead, each by its own index.
SELECT stage, CASE WHEN lease_owner IS NULL THEN 'ready' ELSE 'running' END AS state, count(*)
FROM redrive.samples
WHERE run_id = :run_id AND status = 'pending' AND next_retry_at IS NULL
GROUP BY stage, state
UNION ALL
SELECT stage, 'retrying', count(*) FROM redrive.samples
WHERE run_id = :run_id AND next_retry_at IS NOT NULL GROUP BY stage
UNION ALL
SELECT stage, 'skipped', count(*) FROM redrive.samples
WHERE run_id = :run_id AND status = 'skipped' GROUP BY stage
UNION ALL
SELECT stage, CASE WHEN attempts = 0 THEN 'source_dlq' ELSE 'dlq' END AS state, count(*)
FROM redrive.samples
WHERE run_id = :run_id AND status = 'dlq' GROUP BY stage, state
