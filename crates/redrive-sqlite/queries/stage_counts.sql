-- The samples of a run by stage: open, waiting, skipped and dead, each by its own index.
SELECT stage, iif(lease_owner IS NULL, 'ready', 'running') AS state, count(*)
FROM samples INDEXED BY samples_open
WHERE run_id = ?1 AND status = 'pending' AND next_retry_at IS NULL
GROUP BY stage, state
UNION ALL
SELECT stage, 'retrying', count(*) FROM samples INDEXED BY samples_due
WHERE run_id = ?1 AND next_retry_at IS NOT NULL GROUP BY stage
UNION ALL
SELECT stage, 'skipped', count(*) FROM samples INDEXED BY samples_skipped
WHERE run_id = ?1 AND status = 'skipped' GROUP BY stage
UNION ALL
SELECT stage, iif(attempts = 0, 'source_dlq', 'dlq') AS state, count(*)
FROM samples INDEXED BY samples_dlq
WHERE run_id = ?1 AND status = 'dlq' GROUP BY stage, state
