SELECT id, line, line_hash, status, stage FROM redrive.samples
WHERE run_id = :run_id AND line > :after ORDER BY line LIMIT :limit::bigint
