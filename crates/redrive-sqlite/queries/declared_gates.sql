SELECT name, per, key, limits, places FROM gates ORDER BY name
