-- Many runs that wait or were given up, each with its row of the journal, in one query. Returns the places in the batch that
-- applied. For the LIMIT see finish_runs.
WITH edited AS (
    UPDATE redrive.runs AS unit SET payload = step.new_data
    FROM (SELECT * FROM unnest(
        :id::bigint[], :old_data::text[], :new_data::text[], :at::timestamptz[], :actor::text[],
        :action::text[], :unit::text[], :filter::text[], :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS step (
        id, old_data, new_data, at, actor, action, unit, filter, details, dedupe_key, place
    ) LIMIT cardinality(:id)) AS step
    WHERE unit.id = step.id AND unit.payload IS NOT DISTINCT FROM step.old_data AND unit.status IN ('discovered', 'error')
    RETURNING step.*
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key FROM edited ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place FROM edited
