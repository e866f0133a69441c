-- Hours from a time on (?1, or all) whose count of a cause is not the number of its failed attempts in the ledger. One
-- statement, because attempts are written and counted in one transaction. Lines of a source are counted under the stage
-- ?2, and are not in the ledger. The remainder of a time before 1970 is negative.
SELECT fingerprint, hour, kind, sum(counted), sum(in_ledger)
FROM (
    SELECT fingerprint, hour, kind, attempts AS counted, 0 AS in_ledger FROM cause_hours
    WHERE (?1 IS NULL OR hour >= ?1)
        AND (kind <> 'sample' OR substr(place, -length(?2) - 1) <> '/' || ?2)
    UNION ALL
    SELECT
        fingerprint, ended_at - (ended_at % 3600000000 + 3600000000) % 3600000000, kind, 0, 1
    FROM attempts
    WHERE fingerprint IS NOT NULL AND (?1 IS NULL OR ended_at >= ?1) AND stage <> ?2
) AS found
GROUP BY hour, fingerprint, kind
HAVING sum(counted) <> sum(in_ledger)
ORDER BY hour, fingerprint, kind LIMIT ?3
