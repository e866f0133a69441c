-- Hours since a time, and the newest hour of each cause and kind: it tells where a cause of long ago was seen last.
SELECT fingerprint, hour, kind, place, attempts, last_at, unit_id FROM redrive.cause_hours AS counted
WHERE fingerprint = ANY (:fingerprints::text[]) AND (:kind::text IS NULL OR kind = :kind) AND (
    hour >= :since OR hour = (
        SELECT max(hour) FROM redrive.cause_hours AS each
        WHERE each.fingerprint = counted.fingerprint AND each.kind = counted.kind
    )
)
ORDER BY hour, kind, place
