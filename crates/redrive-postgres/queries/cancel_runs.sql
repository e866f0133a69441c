-- Many runs, each once, with their journal entries, in one query: those that are still in the state that was
-- read. A worker that holds one of them holds an older epoch afterwards. Returns the places in the batch that
-- applied. For the LIMIT see finish_runs.
WITH cancelled AS (
    UPDATE redrive.runs AS run SET
        status = 'cancelled', ready = false, due_at = NULL, next_retry_at = NULL,
        lease_epoch = run.lease_epoch + CASE WHEN run.status = 'processing' THEN 1 ELSE 0 END,
        lease_owner = NULL, lease_until = NULL
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
    SELECT at, actor, action, unit, filter, details, dedupe_key FROM cancelled ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place FROM cancelled
