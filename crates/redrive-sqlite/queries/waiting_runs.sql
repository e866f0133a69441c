-- How many runs of queues (?1, a JSON array) could be claimed now, up to a limit (?3): those of one category (?2), or all.
SELECT count(*) FROM (
    SELECT 1 FROM json_each(?1) AS named CROSS JOIN runs
    WHERE queue = named.value AND ready = 1 AND (?2 IS NULL OR category = ?2)
    LIMIT ?3
)
