SELECT name, per, key, limits, places FROM redrive.gates ORDER BY name
