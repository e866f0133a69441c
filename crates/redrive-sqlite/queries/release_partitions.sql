-- One work row. The run that was started never finishes; the next claim starts another.
UPDATE partition_work SET lease_owner = NULL, lease_until = NULL, run_id = NULL
WHERE id = ?1 AND lease_epoch = ?2 AND lease_owner IS NOT NULL
