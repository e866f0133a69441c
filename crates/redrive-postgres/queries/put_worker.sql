INSERT INTO redrive.workers (id, host, process, version, started_at, heard_at, lease_until, draining, places)
VALUES (:id, :host, :process, :version, :started_at, :heard_at, :lease_until, :draining, :places)
ON CONFLICT (id) DO UPDATE SET
    heard_at = excluded.heard_at, lease_until = excluded.lease_until, draining = excluded.draining,
    places = excluded.places
