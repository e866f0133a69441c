-- Writes nothing if the declaration is the same.
INSERT INTO gates (name, per, key, places) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (name) DO UPDATE SET per = excluded.per, key = excluded.key, places = excluded.places
WHERE per IS NOT excluded.per OR key IS NOT excluded.key OR places <> excluded.places
