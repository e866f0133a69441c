-- No other statement changes this column.
UPDATE items SET upload_attempts = upload_attempts + 1 WHERE id = ?1 RETURNING upload_attempts
