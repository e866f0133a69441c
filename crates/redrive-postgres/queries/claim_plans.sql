-- Plans with work that nobody executes, or whose executor has lost its lease; one alone (:only), or the oldest
-- ones without some (:except). Newer versions execute the plans whose action this one does not know (:known). For the last LIMIT see
-- finish_runs.
WITH free AS MATERIALIZED (
    SELECT id FROM redrive.plans
    WHERE (status = 'running' OR pending > 0) AND (lease_owner IS NULL OR lease_until <= :now)
        AND (:only::bigint IS NULL OR id = :only) AND id <> ALL (:except::bigint[]) AND action = ANY (:known::text[])
    ORDER BY id LIMIT :limit::bigint
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.plans AS plan SET
    lease_owner = :owner, lease_epoch = plan.lease_epoch + 1, lease_until = :lease_until
FROM (SELECT id FROM free LIMIT :limit::bigint) AS few WHERE plan.id = few.id
RETURNING
    plan.id, plan.action, plan.options, plan.selection, plan.settings, plan.status, plan.created_at, plan.created_by, plan.reason, plan.ordered_by, plan.ordered_reason,
    plan.frozen_at, plan.started_at, plan.ended_at, plan.stop_reason, plan.total, plan.changed, plan.skipped, plan.pending, plan.recovered, plan.same_cause,
    plan.other_cause, plan.superseded, plan.undone, plan.last_unit, plan.undo_unit, plan.ramp_from, plan.next_at, plan.lease_owner, plan.lease_epoch, plan.lease_until
