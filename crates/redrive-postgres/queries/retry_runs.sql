-- Many locked runs, each once, with their journal entries, in one query. Their last error stays. Returns the places in the
-- batch that applied. A run that is ready already gets a new row: a claim that has read the run as it was does not
-- take it. For the LIMIT see finish_runs.
WITH no_longer_due AS (
    DELETE FROM redrive.due_runs AS due USING redrive.runs AS run
    WHERE run.id = ANY (:id::bigint[]) AND due.queue = run.queue
        AND due.due_at = coalesce(run.next_retry_at, run.not_before) AND due.id = run.id
),
no_longer_ready AS (
    DELETE FROM redrive.ready_runs AS ready USING redrive.runs AS run
    WHERE run.id = ANY (:id) AND ready.queue = run.queue AND ready.category = run.category
        AND ready.submitted_at = run.submitted_at AND ready.id = run.id
    RETURNING ready.id
),
retried AS (
    UPDATE redrive.runs AS run SET
        status = 'discovered', next_retry_at = NULL, retry_count = 0, deferrals = 0, first_attempt_at = NULL,
        attempts_at_reset = run.attempts
    FROM (SELECT * FROM unnest(
        :id::bigint[], :at::timestamptz[], :actor::text[], :action::text[], :unit::text[], :filter::text[],
        :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS named (id, at, actor, action, unit, filter, details, dedupe_key, place)
        LIMIT cardinality(:id)
    ) AS named
    WHERE run.id = named.id
    RETURNING named.*, run.queue, run.category, run.submitted_at
),
ready_again AS (
    INSERT INTO redrive.ready_runs (queue, category, submitted_at, id, fresh)
    SELECT queue, category, submitted_at, id, true FROM retried
    -- After the old rows are gone.
    WHERE (SELECT count(*) FROM no_longer_ready) >= 0
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key FROM retried ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place FROM retried
