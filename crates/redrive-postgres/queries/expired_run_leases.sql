SELECT id, lease_epoch, lease_owner, lease_until FROM redrive.runs
WHERE status = 'processing' AND lease_until <= :now AND id > :after ORDER BY id LIMIT :limit::bigint
