-- Causes of stuck and waiting units, and of attempts since a time (:since), of one kind (:kind) or all: the most
-- stuck units first. One row per cause and kind. A cause that is asked for by its fingerprint (:fingerprint) also has a row
-- without a kind, so that it is found when nothing is left of it. The totals are a window: a join of the counts with
-- themselves would compare every cause with every other.
WITH stopped AS (
    SELECT
        fingerprint, 'run' AS kind, count(*) FILTER (WHERE NOT waits) AS stuck,
        count(*) FILTER (WHERE waits) AS waiting
    FROM redrive.run_states WHERE status = 'error' AND fingerprint IS NOT NULL GROUP BY fingerprint
    UNION ALL
    -- A run that is held does not wait. LIMIT makes the planner look each of them up.
    SELECT run.fingerprint, 'run', 0, -count(*)
    FROM redrive.run_claims AS claim CROSS JOIN LATERAL unnest(claim.run_ids) AS held (id)
    CROSS JOIN LATERAL (SELECT * FROM redrive.run_states WHERE run_states.id = held.id LIMIT 1) AS run
    WHERE run.status = 'error' AND run.fingerprint IS NOT NULL GROUP BY run.fingerprint
    UNION ALL
    SELECT
        fingerprint, 'item', count(*) FILTER (WHERE status = 'upload_giveup'),
        count(*) FILTER (WHERE status = 'pending')
    FROM redrive.items WHERE fingerprint IS NOT NULL GROUP BY fingerprint
    UNION ALL
    SELECT
        fingerprint, 'sample', count(*) FILTER (WHERE status = 'dlq'),
        count(*) FILTER (
            WHERE next_retry_at IS NOT NULL
                AND run_id IN (SELECT id FROM redrive.pipeline_runs WHERE status = 'running')
        )
    FROM redrive.samples WHERE fingerprint IS NOT NULL GROUP BY fingerprint
    UNION ALL
    SELECT failure.fingerprint, 'partition', count(*), 0
    FROM redrive.partition_state AS state
    JOIN redrive.partition_failures AS failure ON failure.partition_id = state.id
    WHERE state.status = 'failed' GROUP BY failure.fingerprint
),
counted AS (
    SELECT
        fingerprint, kind, sum(stuck)::bigint AS stuck, sum(waiting)::bigint AS waiting,
        sum(attempts)::bigint AS attempts
    FROM (
        SELECT fingerprint, kind, stuck, waiting, 0 AS attempts FROM stopped
        UNION ALL
        SELECT fingerprint, kind, 0, 0, attempts FROM redrive.cause_hours
        WHERE hour >= :since::timestamptz AND :fingerprint::text IS NULL
        UNION ALL
        -- By another index than the hours of all causes.
        SELECT fingerprint, kind, 0, 0, attempts FROM redrive.cause_hours
        WHERE fingerprint = :fingerprint AND hour >= :since
        UNION ALL
        SELECT fingerprint, NULL, 0, 0, 0 FROM redrive.causes WHERE fingerprint = :fingerprint::text
    ) AS found
    WHERE (:kind::text IS NULL OR kind = :kind) AND (:fingerprint::text IS NULL OR fingerprint = :fingerprint)
    GROUP BY fingerprint, kind
    HAVING sum(stuck) + sum(waiting) + sum(attempts) > 0 OR kind IS NULL
),
summed AS (
    SELECT
        counted.*, sum(stuck) OVER cause AS all_stuck, sum(waiting) OVER cause AS all_waiting,
        sum(attempts) OVER cause AS all_attempts
    FROM counted WINDOW cause AS (PARTITION BY fingerprint)
),
placed AS (
    SELECT summed.*, dense_rank() OVER (
        ORDER BY all_stuck DESC, all_waiting DESC, all_attempts DESC, fingerprint
    ) AS place
    FROM summed
)
SELECT
    cause.fingerprint, cause.class, cause.code, cause.message, cause.first_at,
    coalesce(
        (
            SELECT max(last_at) FROM redrive.cause_hours AS seen
            WHERE seen.fingerprint = cause.fingerprint AND (:kind::text IS NULL OR seen.kind = :kind) AND seen.hour = (
                SELECT max(hour) FROM redrive.cause_hours AS each
                WHERE each.fingerprint = cause.fingerprint AND (:kind::text IS NULL OR each.kind = :kind)
            )
        ),
        cause.first_at
    ),
    cause.mark, cause.note, cause.ticket, cause.marked_at, cause.marked_by, cause.returned_at,
    placed.kind, placed.stuck, placed.waiting, placed.attempts
FROM placed JOIN redrive.causes AS cause ON cause.fingerprint = placed.fingerprint
WHERE placed.place <= :limit::bigint
ORDER BY placed.place, placed.kind
