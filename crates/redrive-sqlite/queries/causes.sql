-- Causes of stuck and waiting units, and of attempts since a time (?1), of one kind (?2) or all: the most
-- stuck units first. One row per cause and kind. A cause that is asked for by its fingerprint (?3) also has a row
-- without a kind, so that it is found when nothing is left of it. The totals are a window: a join of the counts with
-- themselves would compare every cause with every other.
WITH stopped AS (
    SELECT
        fingerprint, 'run' AS kind, count(*) FILTER (WHERE next_retry_at IS NULL) AS stuck,
        count(*) FILTER (WHERE next_retry_at IS NOT NULL) AS waiting
    FROM runs WHERE status = 'error' AND fingerprint IS NOT NULL GROUP BY fingerprint
    UNION ALL
    SELECT
        fingerprint, 'item', count(*) FILTER (WHERE status = 'upload_giveup'),
        count(*) FILTER (WHERE status = 'pending')
    FROM items WHERE fingerprint IS NOT NULL GROUP BY fingerprint
    UNION ALL
    SELECT
        fingerprint, 'sample', count(*) FILTER (WHERE status = 'dlq'),
        count(*) FILTER (
            WHERE next_retry_at IS NOT NULL
                AND run_id IN (SELECT id FROM pipeline_runs WHERE status = 'running')
        )
    FROM samples WHERE fingerprint IS NOT NULL GROUP BY fingerprint
    UNION ALL
    SELECT failure.fingerprint, 'partition', count(*), 0
    FROM partition_state AS state
    CROSS JOIN partition_failures AS failure ON failure.partition_id = state.id
    WHERE state.status = 'failed' GROUP BY failure.fingerprint
),
counted AS (
    SELECT
        fingerprint, kind, sum(stuck) AS stuck, sum(waiting) AS waiting,
        sum(attempts) AS attempts
    FROM (
        SELECT fingerprint, kind, stuck, waiting, 0 AS attempts FROM stopped
        UNION ALL
        SELECT fingerprint, kind, 0, 0, attempts FROM cause_hours
        WHERE hour >= ?1 AND ?3 IS NULL
        UNION ALL
        -- By another index than the hours of all causes.
        SELECT fingerprint, kind, 0, 0, attempts FROM cause_hours
        WHERE fingerprint = ?3 AND hour >= ?1
        UNION ALL
        SELECT fingerprint, NULL, 0, 0, 0 FROM causes WHERE fingerprint = ?3
    ) AS found
    WHERE (?2 IS NULL OR kind = ?2) AND (?3 IS NULL OR fingerprint = ?3)
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
            SELECT max(last_at) FROM cause_hours AS seen
            WHERE seen.fingerprint = cause.fingerprint AND (?2 IS NULL OR seen.kind = ?2) AND seen.hour = (
                SELECT max(hour) FROM cause_hours AS each
                WHERE each.fingerprint = cause.fingerprint AND (?2 IS NULL OR each.kind = ?2)
            )
        ),
        cause.first_at
    ),
    cause.mark, cause.note, cause.ticket, cause.marked_at, cause.marked_by, cause.returned_at,
    placed.kind, placed.stuck, placed.waiting, placed.attempts
FROM placed CROSS JOIN causes AS cause ON cause.fingerprint = placed.fingerprint
WHERE placed.place <= ?4
ORDER BY placed.place, placed.kind
