SELECT status, count(*) FROM redrive.items WHERE upload = $1 AND group_name = $2 GROUP BY status
