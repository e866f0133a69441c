-- The stretches of 1024 ids with finished attempts or journal entries about runs.
SELECT unit_id / 1024 FROM attempts WHERE id > ?1 AND id <= ?2 AND kind = 'run'
UNION
SELECT CAST(substr(unit, 5) AS INTEGER) / 1024 FROM journal
WHERE id > ?3 AND id <= ?4 AND unit LIKE 'run:%'
