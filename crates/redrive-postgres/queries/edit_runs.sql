-- Many locked runs that wait or were given up, each with its row of the journal, in one query. Returns the places in the
-- batch that applied. A ready run gets a new row: see retry_runs. For the LIMIT see finish_runs.
WITH edited AS (
    UPDATE redrive.runs AS run SET payload = step.new_data
    FROM (SELECT * FROM unnest(
        :id::bigint[], :old_data::text[], :new_data::text[], :at::timestamptz[], :actor::text[],
        :action::text[], :unit::text[], :filter::text[], :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS step (
        id, old_data, new_data, at, actor, action, unit, filter, details, dedupe_key, place
    ) LIMIT cardinality(:id)) AS step
    WHERE run.id = step.id AND run.payload IS NOT DISTINCT FROM step.old_data
        AND EXISTS (
            SELECT FROM redrive.run_records AS record
            WHERE record.id = step.id AND record.status IN ('discovered', 'error')
        )
    RETURNING step.*, run.queue, run.category, run.submitted_at
),
no_longer_ready AS (
    DELETE FROM redrive.ready_runs AS ready USING edited
    WHERE ready.queue = edited.queue AND ready.category = edited.category
        AND ready.submitted_at = edited.submitted_at AND ready.id = edited.id
    RETURNING ready.*
),
ready_again AS (
    INSERT INTO redrive.ready_runs SELECT * FROM no_longer_ready
    WHERE (SELECT count(*) FROM no_longer_ready) >= 0
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key FROM edited ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place FROM edited
