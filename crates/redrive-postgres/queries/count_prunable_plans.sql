-- The number of plans that prunable_plans finds.
SELECT count(*) FROM redrive.plans
WHERE (status IN ('done', 'aborted', 'undone') AND pending = 0 AND ended_at < :before
        OR status = 'draft' AND frozen_at IS NULL AND created_at < :before)
    AND action = ANY (:known::text[])
