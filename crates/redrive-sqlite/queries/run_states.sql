SELECT id, queue, status, next_retry_at IS NOT NULL FROM runs WHERE id >= ?1 AND id < ?2
