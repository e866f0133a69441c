-- Many runs, with their journal entries, in one query. The counts of earlier attempts stay. Returns the
-- places in the batch that applied. For the LIMIT see finish_runs.
WITH returned AS (
    UPDATE redrive.runs AS run SET
        status = 'discovered', ready = true, lease_owner = NULL, lease_until = NULL
    FROM (SELECT * FROM unnest(
        :id::bigint[], :epoch::bigint[], :at::timestamptz[], :actor::text[], :action::text[],
        :unit::text[], :filter::text[], :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS held
        (id, epoch, at, actor, action, unit, filter, details, dedupe_key, place)
        LIMIT cardinality(:id)
    ) AS held
    WHERE run.id = held.id AND run.lease_epoch = held.epoch AND run.status = 'processing'
    RETURNING held.*
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key FROM returned ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place FROM returned
