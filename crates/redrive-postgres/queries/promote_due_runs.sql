-- Moves runs whose retry or start is due to the ready ones, and returns their number. Reads no waiting run that is not
-- due, and skips runs that another claim is promoting. Promotes a limited number at a time, so that no query takes
-- too long (SQLite promotes all at once). Locked rows are found again by their ctid; for the second LIMIT see
-- finish_runs. The claim in the same transaction reads the position of the oldest promoted run from the
-- setting.
WITH due AS MATERIALIZED (
    SELECT ctid AS tid FROM redrive.due_runs WHERE queue = :queue AND due_at <= :now
    ORDER BY due_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
),
promoted AS (
    DELETE FROM redrive.due_runs AS run
    USING (SELECT tid FROM due LIMIT :limit::bigint) AS few WHERE run.ctid = few.tid
    RETURNING run.queue, run.category, run.submitted_at, run.id, run.fresh
),
ready AS (
    INSERT INTO redrive.ready_runs (queue, category, submitted_at, id, fresh, has_state)
    SELECT queue, category, submitted_at, id, fresh, NOT fresh FROM promoted
)
SELECT count(*), set_config('redrive.oldest_arrival', coalesce(min(submitted_at)::text, ''), true)
FROM promoted
