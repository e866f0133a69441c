-- One item. Returns no row if the name exists.
INSERT INTO items (upload, group_name, name, content_url, size_bytes, sha256, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (upload, group_name, name) DO NOTHING
RETURNING id
