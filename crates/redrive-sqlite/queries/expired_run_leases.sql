SELECT id, lease_epoch, lease_owner, lease_until, claimed_at FROM runs INDEXED BY runs_held
WHERE status = 'processing' AND lease_until <= ?1 AND id > ?2
    AND (?4 IS NULL OR lease_owner = ?4)
ORDER BY id LIMIT ?3
