-- Claims of every category; none of a paused queue. The categories that have something ready are found
-- by skipping along the index, from its end: what was claimed leaves dead entries at the beginning of
-- each category, and a look from there passes over all that were not vacuumed yet. How many of the
-- oldest runs each of them has is its share; so many are locked there, passing over what other claims
-- hold at the moment (SQLite has one writer and locks nothing).
--
-- Locking the whole limit in every category and keeping the oldest would lock the rest for nothing.
-- That is done only for a lone category, whose share is everything, and when asked for (:to_the_limit): a claim
-- that got nothing because others hold its shares looks further. What is locked is found again by its
-- place in the table, and the last LIMIT limits nothing: see finish_runs.
--
-- Runs are looked for from a place in their order on (:from_submitted_at, :from_id), before which a claim has found nothing a
-- moment ago, or from what was promoted in this transaction, if that is older. A look from the beginning
-- passes over the dead entries (SQLite has none); it is done once, to find the oldest run, and what is
-- locked is looked for from there. Beside each run is the id of the oldest, which another may hold.
WITH RECURSIVE present (category) AS (
    (
        SELECT category FROM redrive.runs
        WHERE queue = :queue AND ready
            AND NOT EXISTS (SELECT FROM redrive.paused_queues WHERE queue = :queue)
        ORDER BY category DESC LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT category FROM redrive.runs
        WHERE queue = :queue AND ready AND category < present.category
        ORDER BY category DESC LIMIT 1
    )
    FROM present WHERE present.category IS NOT NULL
),
allowed AS MATERIALIZED (
    SELECT category FROM present WHERE category IS NOT NULL
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
    lease_owner = :owner, lease_epoch = run.lease_epoch + 1, lease_until = :lease_until
FROM (SELECT tid FROM locked LIMIT :limit::bigint) AS few WHERE run.ctid = few.tid
RETURNING run.id, run.category, run.payload, run.submitted_at, run.attempts, run.lease_epoch,
    run.retry_count, run.deferrals, run.first_attempt_at, (SELECT id FROM oldest)
