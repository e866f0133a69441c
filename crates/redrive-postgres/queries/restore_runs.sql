-- Many locked runs, each once, with their journal entries, in one query: an operator's retry made them ready and no worker
-- has taken them. They are as they were before. Returns the places in the batch that applied. For the LIMIT see
-- finish_runs.
WITH no_longer_ready AS (
    DELETE FROM redrive.ready_runs AS ready USING redrive.run_states AS state
    WHERE state.id = ANY (:id::bigint[]) AND ready.queue = state.queue AND ready.category = state.category
        AND ready.submitted_at = state.submitted_at AND ready.id = state.id
),
named AS MATERIALIZED (
    SELECT named.*, state.tid FROM unnest(
        :id::bigint[], :status::text[], :next_retry_at::timestamptz[], :retry_count::bigint[], :deferrals::bigint[],
        :first_attempt_at::timestamptz[], :attempts_at_reset::bigint[], :at::timestamptz[], :actor::text[],
        :action::text[], :unit::text[], :filter::text[], :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS named (
        id, status, next_retry_at, retry_count, deferrals, first_attempt_at, attempts_at_reset, at, actor, action, unit,
        filter, details, dedupe_key, place
    )
    CROSS JOIN LATERAL (
        SELECT ctid AS tid FROM redrive.run_states WHERE run_states.id = named.id LIMIT 1
    ) AS state
),
restored AS (
    UPDATE redrive.run_states AS state SET
        status = named.status, waits = named.next_retry_at IS NOT NULL, next_retry_at = named.next_retry_at,
        retry_count = named.retry_count, deferrals = named.deferrals, first_attempt_at = named.first_attempt_at,
        attempts_at_reset = named.attempts_at_reset
    FROM (SELECT * FROM named LIMIT cardinality(:id)) AS named
    WHERE state.ctid = named.tid AND state.status = 'discovered'
    RETURNING named.*, state.queue, state.category, state.submitted_at
),
due_again AS (
    INSERT INTO redrive.due_runs (queue, due_at, id, category, submitted_at, fresh)
    SELECT queue, next_retry_at, id, category, submitted_at, false FROM restored WHERE next_retry_at IS NOT NULL
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key FROM restored ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place FROM restored
