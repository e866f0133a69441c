-- Guarded by the state that was read: dead.
UPDATE samples SET
    status = 'pending', attempts_at_reset = attempts, retry_count = 0, deferrals = 0,
    first_attempt_at = NULL
WHERE id = ?1 AND status = 'dlq' AND data IS NOT NULL
