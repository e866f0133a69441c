-- Locks the runs, so that they are still in these states when they are changed.
SELECT id, status, next_retry_at IS NOT NULL FROM redrive.runs
WHERE id = ANY (:ids) ORDER BY id FOR UPDATE
