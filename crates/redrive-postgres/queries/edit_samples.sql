-- Many dead letters, each with its row of the journal, in one query. Returns the places in the batch that
-- applied. For the LIMIT see finish_runs.
WITH edited AS (
    UPDATE redrive.samples AS unit SET data = step.new_data, gate_key = NULL
    FROM (SELECT * FROM unnest(
        :id::bigint[], :old_data::text[], :new_data::text[], :at::timestamptz[], :actor::text[],
        :action::text[], :unit::text[], :filter::text[], :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS step (
        id, old_data, new_data, at, actor, action, unit, filter, details, dedupe_key, place
    ) LIMIT cardinality(:id)) AS step
    WHERE unit.id = step.id AND unit.data IS NOT DISTINCT FROM step.old_data AND unit.status IN ('dlq')
    RETURNING step.*
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key FROM edited ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place FROM edited
