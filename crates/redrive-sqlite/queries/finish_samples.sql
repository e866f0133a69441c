-- One sample. Changes nothing unless the sample is still held under this epoch. A sample that
-- continues to another stage starts there with empty counts; the worker ?17 keeps it until ?18, or
-- no worker does.
UPDATE samples SET
    status = ?3, stage = ?4, claim_stage = iif(?17 IS NULL, ?4, claim_stage), data = coalesce(?5, data), attempts = ?6,
    attempts_at_reset = CASE stage WHEN ?4 THEN attempts_at_reset ELSE 0 END,
    retry_count = ?7, deferrals = ?8, next_retry_at = ?9, first_attempt_at = ?10,
    last_attempt_at = ?11, error_class = ?12, error_code = ?13, error_message = ?14,
    fingerprint = ?15, skip_reason = ?16, lease_owner = ?17, lease_until = ?18,
    lease_epoch = lease_epoch + (?17 IS NOT NULL), claimed_at = iif(?17 IS NULL, claimed_at, ?19),
    last_failure_at = iif(?12 IS NULL, last_failure_at, ?19)
WHERE id = ?1 AND lease_epoch = ?2 AND lease_owner IS NOT NULL
