UPDATE pipeline_runs SET lease_until = 0 WHERE lease_owner IS NOT NULL
