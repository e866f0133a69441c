UPDATE samples SET lease_until = 0 WHERE lease_owner IS NOT NULL
