-- The only query that changes this column. An item that another process has ended meanwhile is not rejected.
UPDATE redrive.items SET upload_attempts = upload_attempts + 1 WHERE id = :id AND status = 'pending'
RETURNING upload_attempts::bigint
