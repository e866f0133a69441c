-- The newest journal entry of each unit (?1, a JSON array), without notes and without releases of units that were not started (?2,
-- a JSON array of reasons).
SELECT named.value, entry.action, entry.details
FROM json_each(?1) AS named JOIN journal AS entry ON entry.id = (
    SELECT id FROM journal INDEXED BY journal_unit WHERE unit = named.value AND action NOT LIKE '%.note'
        AND NOT (action LIKE '%.handback' AND details ->> 'why' IN (SELECT value FROM json_each(?2)))
    ORDER BY id DESC LIMIT 1
)
