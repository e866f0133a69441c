-- Many runs, each once, with their journal entries, in one query: those that are still in the state that was
-- read. Their last error stays. Returns the places in the batch that applied. For the LIMIT see finish_runs.
WITH retried AS (
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
    SELECT at, actor, action, unit, filter, details, dedupe_key FROM retried ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place FROM retried
