-- Many runs, numbered in the given order. Returns no row for a run whose idempotency key is taken. SQLite
-- takes one run at a time, and keeps in the run whether it is ready or due.
WITH added AS (
    INSERT INTO redrive.runs (queue, category, payload, submitted_at, not_before, idempotency_key)
    SELECT queue, category, payload, submitted_at, not_before, idempotency_key
    FROM unnest(
        :queue::text[], :category::text[], :payload::text[], :submitted_at::timestamptz[],
        :not_before::timestamptz[], :idempotency_key::text[]
    ) WITH ORDINALITY AS new (queue, category, payload, submitted_at, not_before, idempotency_key, place)
    ORDER BY place
    ON CONFLICT (queue, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING id, queue, category, submitted_at, not_before, idempotency_key
),
ready AS (
    INSERT INTO redrive.ready_runs (queue, category, submitted_at, id, fresh)
    SELECT queue, category, submitted_at, id, true FROM added WHERE (not_before > :now::timestamptz) IS NOT TRUE
),
due AS (
    INSERT INTO redrive.due_runs (queue, due_at, id, category, submitted_at, fresh)
    SELECT queue, not_before, id, category, submitted_at, true FROM added WHERE not_before > :now
)
SELECT id, CASE WHEN idempotency_key IS NOT NULL THEN queue END, idempotency_key FROM added
