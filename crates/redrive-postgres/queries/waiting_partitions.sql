-- How many partitions of sources (:places) could be claimed now, up to a limit: those of one customer (:key), or all.
SELECT count(*) FROM (
    SELECT FROM redrive.partition_work
    WHERE source = ANY (:places) AND (:key::text IS NULL OR customer_id = :key)
        AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
    LIMIT :limit::bigint
) AS waiting
