-- Returns no row if another worker holds the group.
INSERT INTO redrive.upload_groups AS held (upload, group_name, lease_owner, lease_epoch, lease_until)
VALUES (:upload, :group_name, :owner, 1, :lease_until)
ON CONFLICT (upload, group_name) DO UPDATE SET
    lease_owner = excluded.lease_owner, lease_epoch = held.lease_epoch + 1,
    lease_until = excluded.lease_until
WHERE held.lease_owner IS NULL OR held.lease_until <= :now
RETURNING id, lease_epoch
