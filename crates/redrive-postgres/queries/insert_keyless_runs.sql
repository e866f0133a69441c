-- Runs without idempotency keys: see insert_runs. Without a conflict to look out for, an insert is as
-- fast as COPY, and tells the ids.
INSERT INTO redrive.runs (queue, category, payload, submitted_at, not_before, ready, due_at)
SELECT queue, category, payload, submitted_at, not_before, due_at IS NULL, due_at
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[]
) WITH ORDINALITY AS new (queue, category, payload, submitted_at, not_before, due_at, place)
ORDER BY place
RETURNING id
