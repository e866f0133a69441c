SELECT lease_owner, lease_until FROM redrive.upload_groups
WHERE upload = :upload AND group_name = :group_name
