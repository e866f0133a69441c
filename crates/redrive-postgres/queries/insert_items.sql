-- Many items, numbered in the given order. Returns no row for an item whose name is taken. SQLite takes one
-- item at a time.
INSERT INTO redrive.items (upload, group_name, name, content_url, size_bytes, sha256, updated_at)
SELECT upload, group_name, name, content_url, size_bytes, sha256, :updated_at
FROM unnest(
    :upload::text[], :group_name::text[], :name::text[], :content_url::text[],
    :size_bytes::bigint[], :sha256::text[]
)
    WITH ORDINALITY AS new (upload, group_name, name, content_url, size_bytes, sha256, place)
ORDER BY place
ON CONFLICT (upload, group_name, name) DO NOTHING
RETURNING id, upload, group_name, name
