SELECT id, at, actor, action, unit, filter, details, dedupe_key FROM redrive.journal
WHERE unit = :unit AND id < :before AND (:action::text IS NULL OR action = :action)
ORDER BY id DESC LIMIT :limit::bigint
