-- Many runs, numbered in the given order. Returns no row for a run whose idempotency key is taken. SQLite
-- takes one run at a time.
INSERT INTO redrive.runs
    (queue, category, payload, submitted_at, not_before, idempotency_key, ready, due_at)
SELECT queue, category, payload, submitted_at, not_before, idempotency_key, due_at IS NULL, due_at
FROM unnest(
    :queue::text[], :category::text[], :payload::text[], :submitted_at::timestamptz[],
    :not_before::timestamptz[], :due_at::timestamptz[], :idempotency_key::text[]
) WITH ORDINALITY AS new
    (queue, category, payload, submitted_at, not_before, due_at, idempotency_key, place)
ORDER BY place
ON CONFLICT (queue, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
RETURNING id, CASE WHEN idempotency_key IS NOT NULL THEN queue END, idempotency_key
