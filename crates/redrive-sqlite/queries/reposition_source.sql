-- One run whose source nobody reads.
UPDATE pipeline_runs SET source_lines = ?2, source_bytes = ?3, source_check = ?4
WHERE id = ?1 AND lease_owner IS NULL
