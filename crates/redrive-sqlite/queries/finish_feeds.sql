UPDATE pipeline_runs SET lease_owner = NULL, lease_until = NULL
WHERE id = ?1 AND lease_epoch = ?2 AND lease_owner IS NOT NULL
