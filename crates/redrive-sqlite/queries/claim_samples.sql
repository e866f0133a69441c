-- One run, one stage: those with a key first, which have waited. Held samples are skipped; they are no more than the workers hold there. OR
-- FAIL: see claim_runs_in.
UPDATE OR FAIL samples SET
    lease_owner = ?4, lease_epoch = lease_epoch + 1, lease_until = ?5, claimed_at = ?6
WHERE id IN (
    SELECT id FROM samples INDEXED BY samples_open
    WHERE run_id = ?1 AND claim_stage = ?2 AND status = 'pending' AND lease_owner IS NULL
        AND next_retry_at IS NULL
    ORDER BY gate_key DESC, id LIMIT ?3
)
RETURNING id, run_id, data, attempts, lease_epoch, retry_count, deferrals, first_attempt_at
