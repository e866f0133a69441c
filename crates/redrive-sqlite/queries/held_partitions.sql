-- How many partitions of sources (?1, a JSON array) are held: those of one customer (?2), or all.
SELECT count(*) FROM partition_work
WHERE lease_owner IS NOT NULL AND source IN (SELECT value FROM json_each(?1)) AND (?2 IS NULL OR customer_id = ?2)
