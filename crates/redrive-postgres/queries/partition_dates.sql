SELECT logical_date, status FROM redrive.partition_state
WHERE source = :source AND customer_id = :customer_id AND query_name = :query_name
    AND logical_date BETWEEN :since AND :until
ORDER BY logical_date
