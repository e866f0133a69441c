-- Plans that ended before a time (:before) and watch no unit, and drafts from before whose list was never completed.
SELECT
    id, action, options, selection, settings, status, created_at, created_by, reason, ordered_by, ordered_reason,
    frozen_at, started_at, ended_at, stop_reason, total, changed, skipped, pending, recovered, same_cause,
    other_cause, superseded, undone, last_unit, undo_unit, ramp_from, next_at, lease_owner, lease_epoch, lease_until
FROM redrive.plans
WHERE id > :after AND (status IN ('done', 'aborted', 'undone') AND pending = 0 AND ended_at < :before
        OR status = 'draft' AND frozen_at IS NULL AND created_at < :before)
    AND action = ANY (:known::text[])
ORDER BY id LIMIT :limit::bigint
