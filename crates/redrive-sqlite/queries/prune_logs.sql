DELETE FROM attempt_logs WHERE kind = ?1 AND unit_id = ?2
