SELECT
    id, upload, group_name, name, content_url, size_bytes, sha256, status, upload_attempts,
    attempts_at_reset, last_attempt, rejection_reason, updated_at, error_class, error_code,
    fingerprint, last_failure_at
FROM items
WHERE id {beyond} ?1 AND {selection}
ORDER BY id {order} LIMIT ?2
