-- The index has the hash of the unit, because a unit may be longer than an index entry.
SELECT id, at, actor, action, unit, filter, details, dedupe_key FROM redrive.journal
WHERE hashtextextended(unit, 0) = hashtextextended(:unit, 0) AND unit = :unit
    AND id > :after AND (:action::text IS NULL OR action = :action)
ORDER BY id LIMIT :limit::bigint
