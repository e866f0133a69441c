-- Claims are locked in the order of their index, as by those who finish, release and renew.
WITH locked AS MATERIALIZED (
    SELECT run_ids FROM redrive.run_claims AS claim
    WHERE EXISTS (
        SELECT FROM unnest(:ids::bigint[]) AS named (id)
        WHERE named.id BETWEEN claim.first_run AND claim.last_run AND named.id = ANY (claim.run_ids)
    )
    ORDER BY claim.epoch, claim.first_run, claim.id FOR UPDATE
)
SELECT unnest(run_ids) FROM locked
