INSERT INTO workers (id, host, process, version, started_at, heard_at, lease_until, draining, places)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (id) DO UPDATE SET
    heard_at = excluded.heard_at, lease_until = excluded.lease_until, draining = excluded.draining,
    places = excluded.places
