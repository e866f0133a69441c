-- One run that has read as many lines, and whose source nobody reads at the time ?5. The epoch keeps out a reader
-- that comes back.
UPDATE pipeline_runs SET
    source_bytes = ?3, source_check = ?4, lease_owner = NULL, lease_until = NULL,
    lease_epoch = lease_epoch + 1
WHERE id = ?1 AND source_lines = ?2 AND source_done = 0
    AND (lease_owner IS NULL OR lease_until <= ?5)
