SELECT
    id, upload, group_name, name, content_url, size_bytes, sha256, status, upload_attempts,
    attempts_at_reset, last_attempt, rejection_reason, updated_at, error_class, error_code,
    fingerprint, last_failure_at
FROM items WHERE upload = ?1 AND group_name = ?2 AND status = 'pending' AND id > ?3
ORDER BY id LIMIT ?4
