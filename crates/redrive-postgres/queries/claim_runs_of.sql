-- Claims of the named categories ($8); other categories are never looked at, and a paused queue has
-- none. How many of the oldest runs each of them has is its share, and so many are locked there; where
-- they begin to be looked for ($6, $7): see claim_runs_any.
WITH allowed AS MATERIALIZED (
    SELECT DISTINCT category FROM unnest($8::text[]) AS named (category)
    WHERE NOT EXISTS (SELECT FROM redrive.paused_queues WHERE queue = $1)
),
start AS MATERIALIZED (
    SELECT least($6::timestamptz, promoted) AS submitted_at,
        CASE WHEN promoted <= $6 THEN -9223372036854775807 ELSE $7::bigint END AS id
    FROM (
        SELECT nullif(current_setting('redrive.oldest_promoted', true), '')::timestamptz
    ) AS just (promoted)
),
oldest AS MATERIALIZED (
    SELECT submitted_at, id FROM allowed, LATERAL (
        SELECT submitted_at, id FROM redrive.runs
        WHERE queue = $1 AND category = allowed.category AND ready
            AND (submitted_at, id) >= ((SELECT submitted_at FROM start), (SELECT id FROM start))
        ORDER BY submitted_at, id LIMIT 1
    ) AS run
    ORDER BY submitted_at, id LIMIT 1
),
share AS MATERIALIZED (
    SELECT category, count(*) AS runs FROM (
        SELECT category FROM allowed, LATERAL (
            SELECT submitted_at, id FROM redrive.runs
            WHERE queue = $1 AND category = allowed.category AND ready
                AND (submitted_at, id) >= ((SELECT submitted_at FROM oldest), (SELECT id FROM oldest))
            ORDER BY submitted_at, id LIMIT $2::bigint
        ) AS run
        ORDER BY submitted_at, id LIMIT $2::bigint
    ) AS taken
    GROUP BY category
),
locked AS MATERIALIZED (
    SELECT tid FROM allowed, LATERAL (
        SELECT ctid AS tid, submitted_at, id FROM redrive.runs
        WHERE queue = $1 AND category = allowed.category AND ready
            AND (submitted_at, id) >= ((SELECT submitted_at FROM oldest), (SELECT id FROM oldest))
        ORDER BY submitted_at, id
        LIMIT CASE
            WHEN $5::boolean OR (SELECT count(*) FROM allowed) = 1 THEN $2::bigint
            ELSE coalesce((SELECT runs FROM share WHERE share.category = allowed.category), 0)
        END
        FOR UPDATE SKIP LOCKED
    ) AS run
    ORDER BY submitted_at, id LIMIT $2::bigint
)
UPDATE redrive.runs AS run SET
    status = 'processing', ready = false, next_retry_at = NULL,
    lease_owner = $3, lease_epoch = run.lease_epoch + 1, lease_until = $4
FROM (SELECT tid FROM locked LIMIT $2::bigint) AS few WHERE run.ctid = few.tid
RETURNING run.id, run.category, run.payload, run.submitted_at, run.attempts, run.lease_epoch,
    run.retry_count, run.deferrals, run.first_attempt_at, (SELECT id FROM oldest)
