SELECT
    id, upload, group_name, name, content_url, size_bytes, sha256, status, upload_attempts::bigint,
    attempts_at_reset::bigint, last_attempt, rejection_reason, updated_at
FROM redrive.items
WHERE id > :after
    AND (:upload::text IS NULL OR upload = :upload)
    AND (:group_name::text IS NULL OR group_name = :group_name)
    AND (:status::text IS NULL OR status = :status)
ORDER BY id LIMIT :limit::bigint
