-- The index holds the hash of a unit, which may be longer than an index entry can be.
SELECT id, at, actor, action, unit, filter, details, dedupe_key FROM redrive.journal
WHERE hashtextextended(unit, 0) = hashtextextended($4, 0) AND unit = $4
    AND id > $1 AND ($2::text IS NULL OR action = $2)
ORDER BY id LIMIT $3::bigint
