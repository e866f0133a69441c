-- Many locked runs, each once, with their journal entries, in one query: an operator's retry made them ready and no worker
-- has taken them. They are as they were before. Returns the places in the batch that applied. For the LIMIT see
-- finish_runs.
WITH no_longer_ready AS (
    DELETE FROM redrive.ready_runs AS ready USING redrive.runs AS run
    WHERE run.id = ANY (:id::bigint[]) AND ready.queue = run.queue AND ready.category = run.category
        AND ready.submitted_at = run.submitted_at AND ready.id = run.id
),
restored AS (
    UPDATE redrive.runs AS run SET
        status = named.status, next_retry_at = named.next_retry_at, retry_count = named.retry_count,
        deferrals = named.deferrals, first_attempt_at = named.first_attempt_at,
        attempts_at_reset = named.attempts_at_reset
    FROM (SELECT * FROM unnest(
        :id::bigint[], :status::text[], :next_retry_at::timestamptz[], :retry_count::bigint[], :deferrals::bigint[],
        :first_attempt_at::timestamptz[], :attempts_at_reset::bigint[], :at::timestamptz[], :actor::text[],
        :action::text[], :unit::text[], :filter::text[], :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS named (
        id, status, next_retry_at, retry_count, deferrals, first_attempt_at, attempts_at_reset, at, actor, action, unit,
        filter, details, dedupe_key, place
    ) LIMIT cardinality(:id)) AS named
    WHERE run.id = named.id AND run.status = 'discovered'
    RETURNING named.*, run.queue, run.category, run.submitted_at
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
