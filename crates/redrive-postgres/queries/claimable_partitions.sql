-- The rows of work that a claim of :limit takes, :backfill_limit of them for backfill while both lanes have
-- work: the oldest of each lane. What one lane leaves, the other gets. Locks only these rows, skipping those
-- that other claims have locked (SQLite has one writer and locks nothing).
WITH share AS MATERIALIZED (
    SELECT least(
        (
            SELECT count(*) FROM (
                SELECT FROM redrive.partition_work
                WHERE source = :source AND lane = 'fresh'
                    AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
                ORDER BY requested_at, id LIMIT :limit::bigint
            ) AS fresh
        ),
        greatest(:limit::bigint - :backfill_limit::bigint, :limit::bigint - (
            SELECT count(*) FROM (
                SELECT FROM redrive.partition_work
                WHERE source = :source AND lane = 'backfill'
                    AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
                ORDER BY requested_at, id LIMIT :limit::bigint
            ) AS backfill
        ))
    ) AS fresh
),
fresh AS MATERIALIZED (
    SELECT id FROM redrive.partition_work
    WHERE source = :source AND lane = 'fresh'
        AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
    ORDER BY requested_at, id LIMIT (SELECT fresh FROM share)
    FOR UPDATE SKIP LOCKED
),
backfill AS MATERIALIZED (
    SELECT id FROM redrive.partition_work
    WHERE source = :source AND lane = 'backfill'
        AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
    ORDER BY requested_at, id LIMIT :limit::bigint - (SELECT fresh FROM share)
    FOR UPDATE SKIP LOCKED
)
SELECT id FROM fresh UNION ALL SELECT id FROM backfill
