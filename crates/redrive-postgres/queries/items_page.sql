SELECT
    id, upload, group_name, name, content_url, size_bytes, sha256, status, upload_attempts::bigint,
    attempts_at_reset::bigint, last_attempt, rejection_reason, updated_at
FROM redrive.items
WHERE id > $1
    AND ($2::text IS NULL OR upload = $2)
    AND ($3::text IS NULL OR group_name = $3)
    AND ($4::text IS NULL OR status = $4)
ORDER BY id LIMIT $5::bigint
