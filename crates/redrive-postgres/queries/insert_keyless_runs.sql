-- Runs without idempotency keys: see insert_runs. Without ON CONFLICT an insert is as fast as COPY, and
-- returns the ids.
WITH added AS (
    INSERT INTO redrive.runs (queue, category, payload, submitted_at, not_before)
    SELECT queue, category, payload, submitted_at, not_before
    FROM unnest(
        :queue::text[], :category::text[], :payload::text[], :submitted_at::timestamptz[],
        :not_before::timestamptz[]
    ) WITH ORDINALITY AS new (queue, category, payload, submitted_at, not_before, place)
    ORDER BY place
    RETURNING id, queue, category, submitted_at, not_before
),
ready AS (
    INSERT INTO redrive.ready_runs (queue, category, submitted_at, id, fresh)
    SELECT queue, category, submitted_at, id, true FROM added WHERE (not_before > :now::timestamptz) IS NOT TRUE
),
due AS (
    INSERT INTO redrive.due_runs (queue, due_at, id, category, submitted_at, fresh)
    SELECT queue, not_before, id, category, submitted_at, true FROM added WHERE not_before > :now
)
SELECT id FROM added
