-- One run. Changes nothing unless the run is still held under this epoch.
UPDATE runs SET
    status = ?3, attempts = ?4, retry_count = ?5, deferrals = ?6, next_retry_at = ?7,
    first_attempt_at = ?8, error_class = ?9, error_message = ?10, result = ?11, ready = ?12,
    due_at = ?13, error_code = ?14, fingerprint = ?15,
    last_failure_at = coalesce(?16, last_failure_at),
    lease_owner = NULL, lease_until = NULL
WHERE id = ?1 AND lease_epoch = ?2 AND status = 'processing'
