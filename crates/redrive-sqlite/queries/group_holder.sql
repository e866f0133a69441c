SELECT lease_owner, lease_until FROM upload_groups WHERE upload = ?1 AND group_name = ?2
