-- Claims samples that a look at the gates has chosen (?1, a JSON array of ids). OR FAIL: see claim_runs_in.
UPDATE OR FAIL samples SET
    lease_owner = ?2, lease_epoch = lease_epoch + 1, lease_until = ?3, claimed_at = ?4,
    next_retry_at = NULL
WHERE id IN (SELECT value FROM json_each(?1))
RETURNING id, run_id, data, attempts, lease_epoch, retry_count, deferrals, first_attempt_at
