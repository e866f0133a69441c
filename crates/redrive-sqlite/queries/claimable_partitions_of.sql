-- The oldest requests of each of the customers (?2, a JSON array), of each lane at most so many (?3), for a claim that chooses
-- among them.
SELECT work.id, work.customer_id, work.lane, work.requested_at
FROM json_each(?2) AS allowed
CROSS JOIN (SELECT 'fresh' AS lane UNION ALL SELECT 'backfill') AS lanes
CROSS JOIN partition_work AS work ON work.id IN (
    SELECT id FROM partition_work AS other
    WHERE other.source = ?1 AND other.customer_id = allowed.value AND other.lane = lanes.lane
        AND other.kind IS NOT NULL AND other.lease_owner IS NULL AND other.paused_at IS NULL
    ORDER BY other.requested_at, other.id LIMIT ?3
)
