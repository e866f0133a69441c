-- One run whose source nobody reads, with its row of the journal.
WITH moved AS (
    UPDATE redrive.pipeline_runs SET
        source_lines = :source_lines, source_bytes = :source_bytes, source_check = :source_check
    WHERE id = :id AND lease_owner IS NULL
    RETURNING 1
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key
    FROM unnest(
        :at::timestamptz[], :actor::text[], :action::text[], :unit::text[], :filter::text[],
        :details::text[], :dedupe_key::text[]
    ) AS entry (at, actor, action, unit, filter, details, dedupe_key)
    WHERE EXISTS (SELECT FROM moved)
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT 1::bigint FROM moved
