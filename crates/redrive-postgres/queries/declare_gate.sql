-- Writes nothing if the declaration is the same.
INSERT INTO redrive.gates (name, per, key, limits, places) VALUES (:name, :per, :key, :limits, :places)
ON CONFLICT (name) DO UPDATE SET per = excluded.per, key = excluded.key, limits = excluded.limits, places = excluded.places
WHERE (gates.per, gates.key, gates.limits, gates.places)
    IS DISTINCT FROM (excluded.per, excluded.key, excluded.limits, excluded.places)
