-- What waited for its retry or its start, and is due, may be claimed; the answer is how many. The
-- waiting ones that are not due are never looked at; what another claim is promoting is left to it.
-- A bounded number at a time, so that no statement takes for ever (SQLite takes all at once). What is
-- locked is found again by its place in the table, and the second LIMIT limits nothing: see
-- finish_runs. The claim that follows in the same transaction learns where the oldest of them is.
WITH due AS MATERIALIZED (
    SELECT ctid AS tid FROM redrive.runs WHERE queue = :queue AND due_at <= :now
    ORDER BY due_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
),
promoted AS (
    UPDATE redrive.runs AS run SET ready = true, due_at = NULL
    FROM (SELECT tid FROM due LIMIT :limit::bigint) AS few WHERE run.ctid = few.tid
    RETURNING run.submitted_at
)
SELECT count(*), set_config('redrive.oldest_promoted', coalesce(min(submitted_at)::text, ''), true)
FROM promoted
