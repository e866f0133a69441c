SELECT min(lease_until) FROM redrive.run_claims WHERE lease_until > :after
