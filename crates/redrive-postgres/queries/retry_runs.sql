-- Many runs, each once, with their rows of the journal, in one statement: those that are still in the
-- state in which they were looked at. Their last error stays to be read. The answer is which places in
-- the batch applied. The LIMIT limits nothing: see finish_runs.
WITH sent_back AS (
    UPDATE redrive.runs AS run SET
        status = 'discovered', ready = true, due_at = NULL, next_retry_at = NULL, retry_count = 0,
        deferrals = 0, first_attempt_at = NULL, attempts_at_reset = run.attempts
    FROM (SELECT * FROM unnest(
        :id::bigint[], :old_status::text[], :waits::boolean[], :at::timestamptz[], :actor::text[],
        :action::text[], :unit::text[], :filter::text[], :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS named
        (id, old_status, waits, at, actor, action, unit, filter, details, dedupe_key, place)
        LIMIT cardinality(:id)
    ) AS named
    WHERE run.id = named.id AND run.status = named.old_status
        AND (run.next_retry_at IS NOT NULL) = named.waits
    RETURNING named.*
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key FROM sent_back ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place FROM sent_back
