-- Ended leases are few. They are found by their end and sorted then: with the order in the same query the
-- planner might walk all runs by id.
WITH ended AS MATERIALIZED (
    SELECT id, lease_epoch, lease_owner, lease_until, claimed_at FROM redrive.runs
    WHERE lease_owner IS NOT NULL AND lease_until <= :now
        AND (:owner::text IS NULL OR lease_owner = :owner)
)
SELECT id, lease_epoch, lease_owner, lease_until, claimed_at FROM ended
WHERE id > :after ORDER BY id LIMIT :limit::bigint
