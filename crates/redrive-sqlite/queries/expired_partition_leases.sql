SELECT id, lease_epoch, lease_owner, lease_until, NULL FROM partition_work INDEXED BY partition_work_held
WHERE lease_owner IS NOT NULL AND lease_until <= ?1 AND id > ?2
    AND (?4 IS NULL OR lease_owner = ?4)
ORDER BY id LIMIT ?3
