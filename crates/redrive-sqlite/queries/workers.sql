SELECT id, host, process, version, started_at, heard_at, lease_until, draining, places
FROM workers ORDER BY started_at, id
