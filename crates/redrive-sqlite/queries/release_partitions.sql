-- One row of work. The run that was begun is never finished; the next claim begins another.
UPDATE partition_work SET lease_owner = NULL, lease_until = NULL, run_id = NULL
WHERE id = ?1 AND lease_epoch = ?2 AND lease_owner IS NOT NULL
