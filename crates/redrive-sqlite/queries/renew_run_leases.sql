-- One lease.
UPDATE runs SET lease_until = max(lease_until, ?3) WHERE id = ?1 AND lease_epoch = ?2 AND status = 'processing'
