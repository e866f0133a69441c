-- Held samples are among the open ones: see the schema. They are found first and sorted then: with the order
-- in the same query the planner might walk all samples by id.
WITH ended AS MATERIALIZED (
    SELECT id, lease_epoch, lease_owner, lease_until, claimed_at FROM redrive.samples
    WHERE status = 'pending' AND next_retry_at IS NULL
        AND lease_owner IS NOT NULL AND lease_until <= :now
        AND (:owner::text IS NULL OR lease_owner = :owner)
)
SELECT id, lease_epoch, lease_owner, lease_until, claimed_at FROM ended
WHERE id > :after ORDER BY id LIMIT :limit::bigint
