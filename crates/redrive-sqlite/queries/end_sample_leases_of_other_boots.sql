UPDATE samples SET lease_until = 0
WHERE status = 'pending' AND next_retry_at IS NULL AND lease_owner IS NOT NULL
