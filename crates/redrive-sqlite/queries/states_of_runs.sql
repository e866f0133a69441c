SELECT id, status, next_retry_at IS NOT NULL FROM runs
WHERE id IN (SELECT value FROM json_each(?1))
