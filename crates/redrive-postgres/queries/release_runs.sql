-- Many runs, with their journal entries, in one query. The counts of earlier attempts stay. Returns the
-- places in the batch that applied. For claims and the LIMIT see finish_runs.
WITH held AS MATERIALIZED (
    SELECT claim.* FROM (
        SELECT DISTINCT epoch FROM unnest(:epoch::bigint[]) AS named (epoch) ORDER BY epoch LIMIT cardinality(:epoch)
    ) AS named
    CROSS JOIN LATERAL (
        SELECT id, epoch, run_ids FROM redrive.run_claims WHERE run_claims.epoch = named.epoch
        ORDER BY first_run, id FOR UPDATE
    ) AS claim
),
held_run AS MATERIALIZED (
    SELECT held.id AS claim_id, held.epoch, run.id FROM held CROSS JOIN LATERAL unnest(held.run_ids) AS run (id)
),
given AS MATERIALIZED (
    SELECT given.*, run.queue, run.category, run.submitted_at
    FROM (SELECT * FROM unnest(
        :id::bigint[], :epoch::bigint[], :at::timestamptz[], :actor::text[], :action::text[],
        :unit::text[], :filter::text[], :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS given
        (id, epoch, at, actor, action, unit, filter, details, dedupe_key, place)
        WHERE ((id, epoch) IN (SELECT id, epoch FROM held_run)) IS TRUE
        LIMIT cardinality(:id)
    ) AS given
    JOIN redrive.runs AS run ON run.id = given.id
),
rest AS MATERIALIZED (
    SELECT claim_id, array_agg(id) AS run_ids FROM held_run
    WHERE ((id, epoch) IN (SELECT id, epoch FROM given)) IS NOT TRUE
    GROUP BY claim_id
),
emptied AS (
    DELETE FROM redrive.run_claims AS claim USING (
        SELECT id FROM held WHERE (id IN (SELECT claim_id FROM rest)) IS NOT TRUE
        LIMIT (SELECT count(*) FROM held)
    ) AS ended
    WHERE claim.id = ended.id
),
reduced AS (
    UPDATE redrive.run_claims AS claim SET run_ids = rest.run_ids
    FROM (SELECT * FROM rest LIMIT (SELECT count(*) FROM held)) AS rest
    WHERE claim.id = rest.claim_id AND cardinality(claim.run_ids) > cardinality(rest.run_ids)
),
returned AS (
    INSERT INTO redrive.run_states (id, queue, category, submitted_at, status, lease_epoch)
    SELECT id, queue, category, submitted_at, 'discovered', epoch FROM given
    ON CONFLICT (id) DO UPDATE SET
        status = excluded.status, waits = false, next_retry_at = NULL, lease_epoch = excluded.lease_epoch
),
ready AS (
    INSERT INTO redrive.ready_runs (queue, category, submitted_at, id, fresh, has_state)
    SELECT queue, category, submitted_at, id, true, true FROM given
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key FROM given ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place FROM given
