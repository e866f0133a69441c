-- How many partitions of sources (?1, a JSON array) could be claimed now, up to a limit (?3): those of one customer (?2), or all.
SELECT count(*) FROM (
    SELECT 1 FROM json_each(?1) AS named CROSS JOIN partition_work
    WHERE source = named.value AND (?2 IS NULL OR customer_id = ?2)
        AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
    LIMIT ?3
)
