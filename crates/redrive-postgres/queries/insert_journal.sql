-- Many entries. An entry whose dedupe key exists, or is earlier in the batch, is not inserted. Returns the
-- keys of the inserted entries.
INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
SELECT at, actor, action, unit, filter, details, dedupe_key
FROM unnest(
    :at::timestamptz[], :actor::text[], :action::text[], :unit::text[], :filter::text[],
    :details::text[], :dedupe_key::text[]
) WITH ORDINALITY AS new (at, actor, action, unit, filter, details, dedupe_key, place)
ORDER BY place
ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
RETURNING dedupe_key
