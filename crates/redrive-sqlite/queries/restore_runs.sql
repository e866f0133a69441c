-- One run that an operator's retry made ready and no worker has taken, as it was before.
UPDATE runs SET
    status = ?2, ready = 0, due_at = ?3, next_retry_at = ?3, retry_count = ?4, deferrals = ?5, first_attempt_at = ?6,
    attempts_at_reset = ?7
WHERE id = ?1 AND status = 'discovered'
