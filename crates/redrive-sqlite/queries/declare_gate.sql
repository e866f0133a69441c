-- Writes nothing if the declaration is the same.
INSERT INTO gates (name, per, key, limits, places) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (name) DO UPDATE SET per = excluded.per, key = excluded.key, limits = excluded.limits, places = excluded.places
WHERE per IS NOT excluded.per OR key IS NOT excluded.key OR limits IS NOT excluded.limits OR places <> excluded.places
