-- Held samples are among the open ones: see the schema.
SELECT id, lease_epoch, lease_owner, lease_until, claimed_at FROM samples INDEXED BY samples_open
WHERE status = 'pending' AND next_retry_at IS NULL
    AND lease_owner IS NOT NULL AND lease_until <= ?1 AND id > ?2
    AND (?4 IS NULL OR lease_owner = ?4)
ORDER BY id LIMIT ?3
