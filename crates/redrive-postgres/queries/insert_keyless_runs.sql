-- Runs without idempotency keys: see insert_runs. Without ON CONFLICT an insert is as fast as COPY, and
-- returns the ids.
INSERT INTO redrive.runs (queue, category, payload, submitted_at, not_before, ready, due_at)
SELECT queue, category, payload, submitted_at, not_before, due_at IS NULL, due_at
FROM unnest(
    :queue::text[], :category::text[], :payload::text[], :submitted_at::timestamptz[],
    :not_before::timestamptz[], :due_at::timestamptz[]
) WITH ORDINALITY AS new (queue, category, payload, submitted_at, not_before, due_at, place)
ORDER BY place
RETURNING id
