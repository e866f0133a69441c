-- One work row, for a run that starts.
UPDATE partition_work SET
    lease_owner = ?2, lease_epoch = lease_epoch + 1, lease_until = ?3, run_id = ?4
WHERE id = ?1
