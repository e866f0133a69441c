SELECT
    id, upload, group_name, name, content_url, size_bytes, sha256, status, upload_attempts,
    attempts_at_reset, last_attempt, rejection_reason, updated_at
FROM items
WHERE id > ?1
    AND (?2 IS NULL OR upload = ?2)
    AND (?3 IS NULL OR group_name = ?3)
    AND (?4 IS NULL OR status = ?4)
ORDER BY id LIMIT ?5
