-- One run, if it is still in the state that was read. The new epoch makes the lease of a worker
-- stale.
UPDATE runs SET
    status = 'cancelled', ready = 0, due_at = NULL, next_retry_at = NULL,
    lease_epoch = lease_epoch + (status = 'processing'), lease_owner = NULL, lease_until = NULL
WHERE id = ?1 AND status = ?2 AND (next_retry_at IS NOT NULL) = ?3
