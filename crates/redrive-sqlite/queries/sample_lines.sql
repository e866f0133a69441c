SELECT id, line, line_hash, status, stage FROM samples WHERE run_id = ?1 AND line > ?2 ORDER BY line LIMIT ?3
