-- Many locked runs, each once, with their journal entries, in one query. A worker that holds one of them (:held) holds an
-- older epoch afterwards. Returns the places in the batch that applied. For the LIMIT see finish_runs.
WITH no_longer_due AS (
    DELETE FROM redrive.due_runs AS due USING redrive.runs AS run
    WHERE run.id = ANY (:id::bigint[]) AND due.queue = run.queue
        AND due.due_at = coalesce(run.next_retry_at, run.not_before) AND due.id = run.id
),
no_longer_ready AS (
    DELETE FROM redrive.ready_runs AS ready USING redrive.runs AS run
    WHERE run.id = ANY (:id) AND ready.queue = run.queue AND ready.category = run.category
        AND ready.submitted_at = run.submitted_at AND ready.id = run.id
),
held AS MATERIALIZED (
    SELECT claim.id, claim.run_ids FROM redrive.run_claims AS claim
    WHERE EXISTS (
        SELECT FROM unnest(:id::bigint[]) AS named (id)
        WHERE named.id BETWEEN claim.first_run AND claim.last_run AND named.id = ANY (claim.run_ids)
    )
),
rest AS MATERIALIZED (
    SELECT held.id, array_agg(run.id ORDER BY run.id) AS run_ids
    FROM held CROSS JOIN LATERAL unnest(held.run_ids) AS run (id)
    WHERE (run.id = ANY (:id)) IS NOT TRUE
    GROUP BY held.id
),
emptied AS (
    DELETE FROM redrive.run_claims AS claim USING (
        SELECT id FROM held WHERE (id IN (SELECT id FROM rest)) IS NOT TRUE LIMIT (SELECT count(*) FROM held)
    ) AS ended
    WHERE claim.id = ended.id
),
reduced AS (
    UPDATE redrive.run_claims AS claim SET run_ids = rest.run_ids
    FROM (SELECT * FROM rest LIMIT (SELECT count(*) FROM held)) AS rest WHERE claim.id = rest.id
),
cancelled AS (
    UPDATE redrive.runs AS run SET
        status = 'cancelled', next_retry_at = NULL,
        lease_epoch = CASE WHEN named.held THEN nextval('redrive.run_epochs') ELSE run.lease_epoch END
    FROM (SELECT * FROM unnest(
        :id::bigint[], :held::boolean[], :at::timestamptz[], :actor::text[], :action::text[], :unit::text[],
        :filter::text[], :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS named (id, held, at, actor, action, unit, filter, details, dedupe_key, place)
        LIMIT cardinality(:id)
    ) AS named
    WHERE run.id = named.id
    RETURNING named.*
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key FROM cancelled ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place FROM cancelled
