-- The newest first. One with an unknown action (:known) must not hide the others.
SELECT
    id, action, options, selection, settings, status, created_at, created_by, reason, ordered_by, ordered_reason,
    frozen_at, started_at, ended_at, stop_reason, total, changed, skipped, pending, recovered, same_cause,
    other_cause, superseded, undone, last_unit, undo_unit, ramp_from, next_at, lease_owner, lease_epoch, lease_until
FROM redrive.plans WHERE id < :before AND action = ANY (:known::text[]) ORDER BY id DESC LIMIT :limit::bigint
