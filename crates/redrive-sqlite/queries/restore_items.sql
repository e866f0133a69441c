-- One item that was reset, as it was before, unless its group is being uploaded.
UPDATE items SET status = 'upload_giveup', attempts_at_reset = ?2, updated_at = ?3
WHERE id = ?1 AND status = 'pending' AND NOT EXISTS (
    SELECT 1 FROM upload_groups AS held
    WHERE held.upload = items.upload AND held.group_name = items.group_name AND held.lease_owner IS NOT NULL
)
