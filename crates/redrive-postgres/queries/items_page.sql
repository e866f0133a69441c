SELECT
    id, upload, group_name, name, content_url, size_bytes, sha256, status, upload_attempts::bigint,
    attempts_at_reset::bigint, last_attempt, rejection_reason, updated_at, error_class, error_code,
    fingerprint, last_failure_at
FROM redrive.items
WHERE id {beyond} :after AND {selection}
ORDER BY id {order} LIMIT :limit::bigint
