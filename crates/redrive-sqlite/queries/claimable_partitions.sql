-- The work rows that a claim of ?2 takes, ?3 of them from backfill while both lanes have requests:
-- the oldest of each lane. Capacity that one lane leaves goes to the other.
WITH fresh AS MATERIALIZED (
    SELECT id FROM partition_work
    WHERE source = ?1 AND lane = 'fresh'
        AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
    ORDER BY requested_at, id LIMIT ?2
),
backfill AS MATERIALIZED (
    SELECT id FROM partition_work
    WHERE source = ?1 AND lane = 'backfill'
        AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
    ORDER BY requested_at, id LIMIT ?2
),
share (fresh) AS MATERIALIZED (
    SELECT min(
        (SELECT count(*) FROM fresh),
        max(?2 - ?3, ?2 - (SELECT count(*) FROM backfill))
    )
)
SELECT id FROM (SELECT id FROM fresh LIMIT (SELECT fresh FROM share))
UNION ALL
SELECT id FROM (SELECT id FROM backfill LIMIT ?2 - (SELECT fresh FROM share))
