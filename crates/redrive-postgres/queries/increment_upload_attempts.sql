-- The only query that changes this column.
UPDATE redrive.items SET upload_attempts = upload_attempts + 1 WHERE id = :id
RETURNING upload_attempts::bigint
