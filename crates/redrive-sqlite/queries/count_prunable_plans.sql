-- The number of plans that prunable_plans finds.
SELECT count(*) FROM plans
WHERE ((status = 'done' OR status = 'aborted' OR status = 'undone') AND pending = 0 AND ended_at < ?1
        OR status = 'draft' AND frozen_at IS NULL AND created_at < ?1)
    AND action IN (SELECT value FROM json_each(?2))
