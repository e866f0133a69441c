-- SQLite only.
INSERT INTO lease_clock (id, boot_id, wall_at, since_boot) VALUES (1, ?1, ?2, ?3)
ON CONFLICT (id) DO UPDATE SET
    boot_id = excluded.boot_id, wall_at = excluded.wall_at, since_boot = excluded.since_boot
