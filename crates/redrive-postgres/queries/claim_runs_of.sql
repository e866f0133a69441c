-- Claims of the named categories ($6); other categories are never looked at, and a paused queue has
-- none. How many of the oldest runs each of them has is its share, and so many are locked there: see
-- claim_runs_any.
WITH allowed AS MATERIALIZED (
    SELECT DISTINCT category FROM unnest($6::text[]) AS named (category)
    WHERE NOT EXISTS (SELECT FROM redrive.paused_queues WHERE queue = $1)
),
share AS MATERIALIZED (
    SELECT category, count(*) AS runs FROM (
        SELECT category FROM allowed, LATERAL (
            SELECT submitted_at, id FROM redrive.runs
            WHERE queue = $1 AND category = allowed.category AND ready
            ORDER BY submitted_at, id LIMIT $2::bigint
        ) AS oldest
        ORDER BY submitted_at, id LIMIT $2::bigint
    ) AS taken
    GROUP BY category
),
locked AS MATERIALIZED (
    SELECT tid FROM allowed, LATERAL (
        SELECT ctid AS tid, submitted_at, id FROM redrive.runs
        WHERE queue = $1 AND category = allowed.category AND ready
        ORDER BY submitted_at, id
        LIMIT CASE
            WHEN $5::boolean OR (SELECT count(*) FROM allowed) = 1 THEN $2::bigint
            ELSE coalesce((SELECT runs FROM share WHERE share.category = allowed.category), 0)
        END
        FOR UPDATE SKIP LOCKED
    ) AS oldest
    ORDER BY submitted_at, id LIMIT $2::bigint
)
UPDATE redrive.runs AS run SET
    status = 'processing', ready = false, next_retry_at = NULL,
    lease_owner = $3, lease_epoch = run.lease_epoch + 1, lease_until = $4
FROM (SELECT tid FROM locked LIMIT $2::bigint) AS few WHERE run.ctid = few.tid
RETURNING run.id, run.category, run.payload, run.submitted_at, run.attempts, run.lease_epoch,
    run.retry_count, run.deferrals, run.first_attempt_at
