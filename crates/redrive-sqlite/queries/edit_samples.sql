-- One dead letter.
UPDATE samples SET data = ?3, gate_key = NULL WHERE id = ?1 AND data IS ?2 AND status = 'dlq'
