-- One run, if it is still in the state that was read. The last error stays.
UPDATE runs SET
    status = 'discovered', ready = 1, due_at = NULL, next_retry_at = NULL, retry_count = 0,
    deferrals = 0, first_attempt_at = NULL, attempts_at_reset = attempts
WHERE id = ?1 AND status = ?2 AND (next_retry_at IS NOT NULL) = ?3
