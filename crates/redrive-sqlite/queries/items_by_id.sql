SELECT
    id, upload, group_name, name, content_url, size_bytes, sha256, status, upload_attempts,
    attempts_at_reset, last_attempt, rejection_reason, updated_at, error_class, error_code,
    fingerprint, last_failure_at
FROM items WHERE id IN (SELECT value FROM json_each(?1)) ORDER BY id
