-- One run, one stage: retries that are due (?6), the longest waiting first. OR FAIL: see
-- claim_runs_in.
UPDATE OR FAIL samples SET
    lease_owner = ?4, lease_epoch = lease_epoch + 1, lease_until = ?5, claimed_at = ?6,
    next_retry_at = NULL
WHERE id IN (
    SELECT id FROM samples WHERE run_id = ?1 AND claim_stage = ?2 AND next_retry_at <= ?6
    ORDER BY next_retry_at LIMIT ?3
)
RETURNING id, run_id, data, attempts, lease_epoch, retry_count, deferrals, first_attempt_at
