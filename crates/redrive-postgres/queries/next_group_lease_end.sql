SELECT min(lease_until) FROM redrive.upload_groups
WHERE lease_owner IS NOT NULL AND lease_until > :after
