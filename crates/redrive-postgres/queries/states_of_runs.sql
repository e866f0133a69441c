-- For runs that are locked (lock_runs and the others), so that they are still in these states when they are changed.
SELECT id, status, next_retry_at IS NOT NULL FROM redrive.run_records WHERE id = ANY (:ids) ORDER BY id
