SELECT min(lease_until) FROM runs INDEXED BY runs_held
WHERE status = 'processing' AND lease_until > ?1
