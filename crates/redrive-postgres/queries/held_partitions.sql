-- How many partitions of sources (:places) are held: those of one customer (:key), or all.
SELECT count(*) FROM redrive.partition_work
WHERE lease_owner IS NOT NULL AND source = ANY (:places) AND (:key::text IS NULL OR customer_id = :key)
