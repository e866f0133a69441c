-- One run. The results of earlier attempts stay.
UPDATE runs SET status = 'discovered', ready = 1, lease_owner = NULL, lease_until = NULL
WHERE id = ?1 AND lease_epoch = ?2 AND status = 'processing'
