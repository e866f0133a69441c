-- Returns no row if another worker holds the group.
INSERT INTO upload_groups (upload, group_name, lease_owner, lease_epoch, lease_until)
VALUES (?1, ?2, ?3, 1, ?4)
ON CONFLICT (upload, group_name) DO UPDATE SET
    lease_owner = excluded.lease_owner, lease_epoch = upload_groups.lease_epoch + 1,
    lease_until = excluded.lease_until
WHERE upload_groups.lease_owner IS NULL OR upload_groups.lease_until <= ?5
RETURNING id, lease_epoch
