SELECT logical_date, status FROM partition_state
WHERE source = ?1 AND customer_id = ?2 AND query_name = ?3 AND logical_date BETWEEN ?4 AND ?5
ORDER BY logical_date
