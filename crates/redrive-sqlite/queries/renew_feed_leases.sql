-- The source of a stopped run is not read further.
UPDATE pipeline_runs SET lease_until = max(lease_until, ?3)
WHERE id = ?1 AND lease_epoch = ?2 AND lease_owner IS NOT NULL AND status = 'running'
