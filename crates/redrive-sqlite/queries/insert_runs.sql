-- One run. Nothing is inserted when its idempotency key is taken. No RETURNING: it would open a
-- table of its own for each run, and the id is known anyway (PostgreSQL has many runs, and returns them).
INSERT INTO runs
    (queue, category, payload, submitted_at, not_before, idempotency_key, ready, due_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (queue, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
