-- Many leases. Returns those that were still held. A claim has one lease for all of its runs: if only some of them
-- are renewed for longer, they get a row of their own with the same epoch. For claims see finish_runs.
WITH held AS MATERIALIZED (
    SELECT claim.* FROM (
        SELECT DISTINCT epoch FROM unnest(:epoch::bigint[]) AS named (epoch) ORDER BY epoch LIMIT cardinality(:epoch)
    ) AS named
    CROSS JOIN LATERAL (
        SELECT * FROM redrive.run_claims WHERE run_claims.epoch = named.epoch ORDER BY first_run, id FOR UPDATE
    ) AS claim
),
held_run AS MATERIALIZED (
    SELECT held.id AS claim_id, held.epoch, run.id,
        ((run.id, held.epoch) IN (
            SELECT id, epoch FROM unnest(:id::bigint[], :epoch::bigint[]) AS given (id, epoch)
        )) IS TRUE AS renewed
    FROM held CROSS JOIN LATERAL unnest(held.run_ids) AS run (id)
),
claim_runs AS MATERIALIZED (
    SELECT claim_id, array_agg(id ORDER BY id) FILTER (WHERE renewed) AS renewed,
        array_agg(id ORDER BY id) FILTER (WHERE NOT renewed) AS others
    FROM held_run GROUP BY claim_id
),
split AS (
    INSERT INTO redrive.run_claims (epoch, queue, owner, lease_until, claimed_at, first_run, last_run, run_ids)
    SELECT epoch, queue, owner, :lease_until, claimed_at, first_run, last_run, renewed
    FROM held CROSS JOIN claim_runs
    WHERE claim_runs.claim_id = held.id AND renewed IS NOT NULL AND others IS NOT NULL AND lease_until < :lease_until
),
kept AS (
    UPDATE redrive.run_claims AS claim SET
        run_ids = CASE
            WHEN others IS NOT NULL AND claim.lease_until < :lease_until THEN others ELSE claim.run_ids
        END,
        lease_until = CASE WHEN others IS NULL THEN greatest(claim.lease_until, :lease_until) ELSE claim.lease_until END
    FROM (SELECT * FROM claim_runs WHERE renewed IS NOT NULL LIMIT (SELECT count(*) FROM held)) AS claim_runs
    WHERE claim.id = claim_runs.claim_id
)
SELECT id, epoch FROM held_run WHERE renewed
