-- Many items, each with its row of the journal, in one query; those that were acknowledged stay. Returns the
-- places in the batch that applied. In the order of the ids: see lock_items. For the LIMIT see finish_runs.
WITH dropped AS (
    DELETE FROM redrive.items AS item
    USING (SELECT * FROM unnest(
        :id::bigint[], :at::timestamptz[], :actor::text[], :action::text[], :unit::text[],
        :filter::text[], :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS step (
        id, at, actor, action, unit, filter, details, dedupe_key, place
    ) ORDER BY id LIMIT cardinality(:id)) AS step
    WHERE item.id = step.id AND item.status IN ('pending', 'upload_giveup')
    RETURNING step.*
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key FROM dropped ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place FROM dropped
