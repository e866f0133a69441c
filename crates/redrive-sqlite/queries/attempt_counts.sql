-- Of the kinds in ?2, summed.
SELECT started_at, outcome, sum(attempts), sum(took) FROM attempt_counts
WHERE seconds = ?1 AND kind IN (SELECT value FROM json_each(?2)) AND place = ?3 AND started_at >= ?4
GROUP BY started_at, outcome ORDER BY started_at, outcome
