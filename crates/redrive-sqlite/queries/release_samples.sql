-- One sample. The results of earlier attempts stay.
UPDATE samples SET claim_stage = stage, lease_owner = NULL, lease_until = NULL
WHERE id = ?1 AND lease_epoch = ?2 AND lease_owner IS NOT NULL
