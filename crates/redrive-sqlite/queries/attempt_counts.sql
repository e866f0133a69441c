-- Of the kinds in ?2, summed. The kinds come first, so that the primary key is used and not the index on the age of all places.
SELECT started_at, outcome, sum(attempts), sum(took) FROM json_each(?2) AS given CROSS JOIN attempt_counts
WHERE seconds = ?1 AND kind = given.value AND place = ?3 AND started_at >= ?4
GROUP BY started_at, outcome ORDER BY started_at, outcome
