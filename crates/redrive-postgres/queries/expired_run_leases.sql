-- Claims are few; those of runs that have ended are gone.
SELECT run.id, claim.epoch, claim.owner, claim.lease_until, claim.claimed_at
FROM redrive.run_claims AS claim CROSS JOIN LATERAL unnest(claim.run_ids) AS run (id)
WHERE claim.lease_until <= :now AND (:owner::text IS NULL OR claim.owner = :owner) AND run.id > :after
ORDER BY run.id LIMIT :limit::bigint
