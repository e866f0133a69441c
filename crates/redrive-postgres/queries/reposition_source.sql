-- One run that has read as many lines, and whose source nobody reads now, with its row of the journal. The epoch keeps
-- out a reader that comes back.
WITH moved AS (
    UPDATE redrive.pipeline_runs SET
        source_bytes = :source_bytes, source_check = :source_check, lease_owner = NULL,
        lease_until = NULL, lease_epoch = lease_epoch + 1
    WHERE id = :id AND source_lines = :source_lines AND NOT source_done
        AND (lease_owner IS NULL OR lease_until <= :now)
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
