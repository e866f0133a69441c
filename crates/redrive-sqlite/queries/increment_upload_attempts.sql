-- No other statement changes this column. An item that another process has ended meanwhile is not rejected.
UPDATE items SET upload_attempts = upload_attempts + 1 WHERE id = ?1 AND status = 'pending' RETURNING upload_attempts
