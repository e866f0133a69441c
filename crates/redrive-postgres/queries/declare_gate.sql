-- Writes nothing if the declaration is the same.
INSERT INTO redrive.gates (name, per, key, places) VALUES (:name, :per, :key, :places)
ON CONFLICT (name) DO UPDATE SET per = excluded.per, key = excluded.key, places = excluded.places
WHERE (gates.per, gates.key, gates.places) IS DISTINCT FROM (excluded.per, excluded.key, excluded.places)
