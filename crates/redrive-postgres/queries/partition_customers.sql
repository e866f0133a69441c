-- The customers with requests, found by skipping along the index.
WITH RECURSIVE present (customer_id) AS (
    (
        SELECT customer_id FROM redrive.partition_work
        WHERE source = :source AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
        ORDER BY customer_id DESC LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT customer_id FROM redrive.partition_work
        WHERE source = :source AND customer_id < present.customer_id
            AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
        ORDER BY customer_id DESC LIMIT 1
    )
    FROM present WHERE present.customer_id IS NOT NULL
)
SELECT customer_id FROM present WHERE customer_id IS NOT NULL
