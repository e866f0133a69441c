-- Hours from a time on (:since, or all) whose count of a cause is not the number of its failed attempts in the ledger.
-- One statement, because attempts are written and counted in one transaction. Lines of a source are counted under the
-- stage :source_stage, and are not in the ledger.
SELECT fingerprint, hour, kind, sum(counted)::bigint, sum(in_ledger)::bigint
FROM (
    SELECT fingerprint, hour, kind, attempts AS counted, 0 AS in_ledger FROM redrive.cause_hours
    WHERE (:since::timestamptz IS NULL OR hour >= :since)
        AND (kind <> 'sample' OR right(place, length(:source_stage::text) + 1) <> '/' || :source_stage)
    UNION ALL
    SELECT fingerprint, date_trunc('hour', ended_at, 'UTC'), kind, 0, count(*)
    FROM redrive.attempts
    WHERE fingerprint IS NOT NULL AND (:since IS NULL OR ended_at >= :since) AND stage <> :source_stage
    GROUP BY fingerprint, date_trunc('hour', ended_at, 'UTC'), kind
) AS found
GROUP BY hour, fingerprint, kind
HAVING sum(counted) <> sum(in_ledger)
ORDER BY hour, fingerprint, kind LIMIT :limit::bigint
