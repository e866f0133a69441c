-- Many items, numbered in the order they were given. An item is missing in the answer when its name
-- is taken. SQLite takes one item at a time.
INSERT INTO redrive.items (upload, group_name, name, content_url, size_bytes, sha256, updated_at)
SELECT upload, group_name, name, content_url, size_bytes, sha256, $7
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[])
    WITH ORDINALITY AS new (upload, group_name, name, content_url, size_bytes, sha256, place)
ORDER BY place
ON CONFLICT (upload, group_name, name) DO NOTHING
RETURNING id, upload, group_name, name
