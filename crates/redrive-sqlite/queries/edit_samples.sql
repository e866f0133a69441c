-- One dead letter.
UPDATE samples SET data = ?3 WHERE id = ?1 AND data IS ?2 AND status = 'dlq'
