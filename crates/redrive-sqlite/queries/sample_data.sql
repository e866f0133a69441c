SELECT id, data FROM samples WHERE id IN (SELECT value FROM json_each(?1))
