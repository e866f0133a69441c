SELECT status, count(*) FROM redrive.items
WHERE upload = :upload AND group_name = :group_name GROUP BY status
