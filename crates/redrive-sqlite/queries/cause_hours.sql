-- Hours since a time, and the newest hour of each cause and kind: it tells where a cause of long ago was seen last.
SELECT fingerprint, hour, kind, place, attempts, last_at, unit_id FROM cause_hours AS counted
WHERE fingerprint IN (SELECT value FROM json_each(?3)) AND (?2 IS NULL OR kind = ?2) AND (
    hour >= ?1 OR hour = (
        SELECT max(hour) FROM cause_hours AS each
        WHERE each.fingerprint = counted.fingerprint AND each.kind = counted.kind
    )
)
ORDER BY hour, kind, place
