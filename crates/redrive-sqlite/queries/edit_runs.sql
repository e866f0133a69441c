-- One run that waits or was given up.
UPDATE runs SET payload = ?3 WHERE id = ?1 AND payload = ?2 AND status IN ('discovered', 'error')
