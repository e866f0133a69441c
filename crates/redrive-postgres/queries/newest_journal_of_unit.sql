SELECT id, at, actor, action, unit, filter, details, dedupe_key FROM redrive.journal
WHERE unit = $4 AND id < $1 AND ($2::text IS NULL OR action = $2)
ORDER BY id DESC LIMIT $3::bigint
