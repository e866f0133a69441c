SELECT min(lease_until) FROM redrive.pipeline_runs
WHERE lease_owner IS NOT NULL AND lease_until > :after
