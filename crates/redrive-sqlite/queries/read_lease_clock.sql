-- SQLite only.
SELECT boot_id, wall_at, since_boot FROM lease_clock WHERE id = 1
