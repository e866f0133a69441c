-- One run. Inserts nothing if the idempotency key exists. No RETURNING, because it would open a
-- temporary table per run, and the id is known without it. (PostgreSQL inserts many runs and
-- returns them.)
INSERT INTO runs
    (queue, category, payload, submitted_at, not_before, idempotency_key, ready, due_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (queue, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
