-- The oldest requests of each of the customers (:key), of each lane at most so many (:most), for a claim that chooses among
-- them. Skips rows that other claims have locked (SQLite has one writer and locks nothing).
SELECT work.id, work.customer_id, work.lane, work.requested_at
FROM unnest(:key::text[], :most::bigint[]) AS allowed (key, most)
CROSS JOIN (VALUES ('fresh'), ('backfill')) AS lanes (lane)
CROSS JOIN LATERAL (
    SELECT id, customer_id, lane, requested_at FROM redrive.partition_work
    WHERE source = :source AND customer_id = allowed.key AND lane = lanes.lane
        AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
    ORDER BY requested_at, id LIMIT allowed.most
    FOR UPDATE SKIP LOCKED
) AS work
