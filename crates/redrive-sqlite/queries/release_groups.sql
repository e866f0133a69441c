-- One group. Returns the columns of the journal entry.
UPDATE upload_groups SET lease_owner = NULL, lease_until = NULL
WHERE id = ?1 AND lease_epoch = ?2 AND lease_owner IS NOT NULL
RETURNING upload, group_name
