-- The index has the hash of the unit, because a unit may be longer than an index entry.
-- The page ends with the entry that reaches its most bytes.
SELECT id, at, actor, action, unit, filter, details, dedupe_key
FROM (
    SELECT *, sum(octet_length(details) + coalesce(octet_length(filter), 0))
        OVER (ORDER BY id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM (
        SELECT id, at, actor, action, unit, filter, details, dedupe_key FROM redrive.journal
        WHERE hashtextextended(unit, 0) = hashtextextended(:unit, 0) AND unit = :unit
            AND id < :before AND (:action::text IS NULL OR action = :action)
        ORDER BY id DESC LIMIT :limit::bigint
    ) AS matching
) AS page
WHERE coalesce(bytes_before, 0) < :max_bytes::bigint
ORDER BY id DESC
