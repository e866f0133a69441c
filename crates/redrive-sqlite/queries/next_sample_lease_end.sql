SELECT min(lease_until) FROM samples INDEXED BY samples_held
WHERE lease_owner IS NOT NULL AND lease_until > ?1
