SELECT id, category, payload FROM runs WHERE queue = ?1 AND idempotency_key = ?2
