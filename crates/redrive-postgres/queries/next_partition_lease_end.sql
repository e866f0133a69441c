SELECT min(lease_until) FROM redrive.partition_work
WHERE lease_owner IS NOT NULL AND lease_until > :after
