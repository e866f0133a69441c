SELECT min(lease_until) FROM redrive.runs WHERE status = 'processing' AND lease_until > :after
