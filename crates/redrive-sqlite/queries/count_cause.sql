INSERT INTO cause_hours (hour, fingerprint, kind, place, attempts, last_at, unit_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (hour, fingerprint, kind, place) DO UPDATE SET
    attempts = attempts + excluded.attempts, last_at = max(last_at, excluded.last_at),
    unit_id = iif(excluded.last_at < last_at, unit_id, excluded.unit_id)
