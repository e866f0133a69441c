-- How many runs of queues (?1, a JSON array) are held: those of one category (?2), or all.
SELECT count(*) FROM runs INDEXED BY runs_held
WHERE status = 'processing' AND queue IN (SELECT value FROM json_each(?1)) AND (?2 IS NULL OR category = ?2)
