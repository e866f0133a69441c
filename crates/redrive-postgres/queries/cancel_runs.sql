-- Many locked runs, each once, with their journal entries, in one query. A worker that holds one of them (:held) holds an
-- older epoch afterwards. Returns the places in the batch that applied. For the LIMIT see finish_runs.
WITH no_longer_due AS (
    DELETE FROM redrive.due_runs AS due USING redrive.runs AS run LEFT JOIN redrive.run_states AS state ON state.id = run.id
    WHERE run.id = ANY (:id::bigint[]) AND due.queue = run.queue
        AND due.due_at = coalesce(state.next_retry_at, run.not_before) AND due.id = run.id
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
    SELECT held.id, array_agg(run.id) AS run_ids
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
named AS MATERIALIZED (
    SELECT named.*, run.queue, run.category, run.submitted_at
    FROM (SELECT * FROM unnest(
        :id::bigint[], :held::boolean[], :at::timestamptz[], :actor::text[], :action::text[], :unit::text[],
        :filter::text[], :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS named (id, held, at, actor, action, unit, filter, details, dedupe_key, place)
        LIMIT cardinality(:id)
    ) AS named
    JOIN redrive.runs AS run ON run.id = named.id
),
cancelled AS (
    INSERT INTO redrive.run_states AS state (id, queue, category, submitted_at, status, lease_epoch)
    SELECT id, queue, category, submitted_at, 'cancelled', CASE WHEN held THEN nextval('redrive.run_epochs') ELSE 0 END
    FROM named
    ON CONFLICT (id) DO UPDATE SET
        status = excluded.status, waits = false, next_retry_at = NULL,
        lease_epoch = greatest(excluded.lease_epoch, state.lease_epoch)
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key FROM named ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place FROM named
