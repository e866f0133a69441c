SELECT status, count(*) FROM items WHERE upload = ?1 AND group_name = ?2 GROUP BY status
