SELECT id, at, actor, action, unit, filter, details, dedupe_key FROM redrive.journal
WHERE id > :after AND (:action::text IS NULL OR action = :action)
ORDER BY id LIMIT :limit::bigint
