-- Plans with work that nobody executes, or whose executor has lost its lease; one alone (?5), or the oldest
-- ones without some (?7). Newer versions execute the plans whose action this one does not know (?6). OR FAIL:
-- see claim_runs_in.
UPDATE OR FAIL plans SET lease_owner = ?1, lease_epoch = lease_epoch + 1, lease_until = ?2
WHERE id IN (
    SELECT id FROM plans
    WHERE (status = 'running' OR pending > 0) AND (lease_owner IS NULL OR lease_until <= ?3)
        AND (?5 IS NULL OR id = ?5) AND id NOT IN (SELECT value FROM json_each(?7)) AND action IN (SELECT value FROM json_each(?6))
    ORDER BY id LIMIT ?4
)
RETURNING
    id, action, options, selection, settings, status, created_at, created_by, reason, ordered_by, ordered_reason,
    frozen_at, started_at, ended_at, stop_reason, total, changed, skipped, pending, recovered, same_cause,
    other_cause, superseded, undone, last_unit, undo_unit, ramp_from, next_at, lease_owner, lease_epoch, lease_until
