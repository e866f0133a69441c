SELECT name, per, key, places FROM gates ORDER BY name
