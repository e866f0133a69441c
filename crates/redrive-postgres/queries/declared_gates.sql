SELECT name, per, key, places FROM redrive.gates ORDER BY name
