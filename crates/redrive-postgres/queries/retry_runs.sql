-- Many locked runs, each once, with their journal entries, in one query. All that can be retried have a state, in which the
-- last error stays. Returns the places in the batch that applied. A run that is ready already gets a new row: a claim that
-- has read the run as it was does not take it. For the LIMIT and the ctid see finish_runs.
WITH no_longer_due AS (
    DELETE FROM redrive.due_runs AS due USING redrive.run_states AS state
    WHERE state.id = ANY (:id::bigint[]) AND due.queue = state.queue AND due.due_at = state.next_retry_at
        AND due.id = state.id
),
no_longer_ready AS (
    DELETE FROM redrive.ready_runs AS ready USING redrive.run_states AS state
    WHERE state.id = ANY (:id) AND ready.queue = state.queue AND ready.category = state.category
        AND ready.submitted_at = state.submitted_at AND ready.id = state.id
    RETURNING ready.id
),
named AS MATERIALIZED (
    SELECT named.*, state.tid FROM unnest(
        :id::bigint[], :at::timestamptz[], :actor::text[], :action::text[], :unit::text[], :filter::text[],
        :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS named (id, at, actor, action, unit, filter, details, dedupe_key, place)
    CROSS JOIN LATERAL (
        SELECT ctid AS tid FROM redrive.run_states WHERE run_states.id = named.id LIMIT 1
    ) AS state
),
retried AS (
    UPDATE redrive.run_states AS state SET
        status = 'discovered', waits = false, next_retry_at = NULL, retry_count = 0, deferrals = 0,
        first_attempt_at = NULL, attempts_at_reset = state.attempts
    FROM (SELECT * FROM named LIMIT cardinality(:id)) AS named
    WHERE state.ctid = named.tid
    RETURNING named.*, state.queue, state.category, state.submitted_at
),
ready_again AS (
    INSERT INTO redrive.ready_runs (queue, category, submitted_at, id, fresh, has_state)
    SELECT queue, category, submitted_at, id, true, true FROM retried
    -- After the old rows are gone.
    WHERE (SELECT count(*) FROM no_longer_ready) >= 0
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key FROM retried ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place FROM retried
