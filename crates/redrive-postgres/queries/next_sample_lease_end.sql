-- Held samples are among the open ones: see the schema.
SELECT min(lease_until) FROM redrive.samples
WHERE status = 'pending' AND next_retry_at IS NULL AND lease_owner IS NOT NULL AND lease_until > :after
