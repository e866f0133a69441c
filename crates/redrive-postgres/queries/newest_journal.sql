SELECT id, at, actor, action, unit, filter, details, dedupe_key FROM redrive.journal
WHERE id < :before AND (:action::text IS NULL OR action = :action)
ORDER BY id DESC LIMIT :limit::bigint
