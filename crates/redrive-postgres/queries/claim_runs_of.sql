-- Claims runs of the named categories (:categories); reads no other category, and claims nothing of a paused
-- queue. For shares and the starting position see claim_runs_any.
WITH allowed AS MATERIALIZED (
    SELECT DISTINCT category FROM unnest(:categories::text[]) AS named (category)
    WHERE NOT EXISTS (SELECT FROM redrive.paused_queues WHERE queue = :queue)
),
start AS MATERIALIZED (
    SELECT least(:from_submitted_at::timestamptz, promoted) AS submitted_at,
        CASE WHEN promoted <= :from_submitted_at THEN -9223372036854775807 ELSE :from_id::bigint END AS id
    FROM (
        SELECT nullif(current_setting('redrive.oldest_promoted', true), '')::timestamptz
    ) AS just (promoted)
),
oldest AS MATERIALIZED (
    SELECT submitted_at, id FROM allowed, LATERAL (
        SELECT submitted_at, id FROM redrive.runs
        WHERE queue = :queue AND category = allowed.category AND ready
            AND (submitted_at, id) >= ((SELECT submitted_at FROM start), (SELECT id FROM start))
        ORDER BY submitted_at, id LIMIT 1
    ) AS run
    ORDER BY submitted_at, id LIMIT 1
),
share AS MATERIALIZED (
    SELECT category, count(*) AS runs FROM (
        SELECT category FROM allowed, LATERAL (
            SELECT submitted_at, id FROM redrive.runs
            WHERE queue = :queue AND category = allowed.category AND ready
                AND (submitted_at, id) >= ((SELECT submitted_at FROM oldest), (SELECT id FROM oldest))
            ORDER BY submitted_at, id LIMIT :limit::bigint
        ) AS run
        ORDER BY submitted_at, id LIMIT :limit::bigint
    ) AS taken
    GROUP BY category
),
locked AS MATERIALIZED (
    SELECT tid FROM allowed, LATERAL (
        SELECT ctid AS tid, submitted_at, id FROM redrive.runs
        WHERE queue = :queue AND category = allowed.category AND ready
            AND (submitted_at, id) >= ((SELECT submitted_at FROM oldest), (SELECT id FROM oldest))
        ORDER BY submitted_at, id
        LIMIT CASE
            WHEN :to_the_limit::boolean OR (SELECT count(*) FROM allowed) = 1 THEN :limit::bigint
            ELSE coalesce((SELECT runs FROM share WHERE share.category = allowed.category), 0)
        END
        FOR UPDATE SKIP LOCKED
    ) AS run
    ORDER BY submitted_at, id LIMIT :limit::bigint
)
UPDATE redrive.runs AS run SET
    status = 'processing', ready = false, next_retry_at = NULL,
    lease_owner = :owner, lease_epoch = run.lease_epoch + 1, lease_until = :lease_until,
    claimed_at = :claimed_at
FROM (SELECT tid FROM locked LIMIT :limit::bigint) AS few WHERE run.ctid = few.tid
RETURNING run.id, run.category, run.payload, run.submitted_at, run.attempts, run.lease_epoch,
    run.retry_count, run.deferrals, run.first_attempt_at, (SELECT id FROM oldest)
