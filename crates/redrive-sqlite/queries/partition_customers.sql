-- The customers with requests, found by skipping along the index.
WITH RECURSIVE present (customer_id) AS (
    SELECT (
        SELECT min(customer_id) FROM partition_work
        WHERE source = ?1 AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
    )
    UNION ALL
    SELECT (
        SELECT min(customer_id) FROM partition_work
        WHERE source = ?1 AND customer_id > present.customer_id
            AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
    )
    FROM present WHERE present.customer_id IS NOT NULL
)
SELECT customer_id FROM present WHERE customer_id IS NOT NULL
