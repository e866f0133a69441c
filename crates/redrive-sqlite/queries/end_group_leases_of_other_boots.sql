-- A lease from another boot has ended: nothing of that boot is alive. SQLite alone.
UPDATE upload_groups SET lease_until = 0 WHERE lease_owner IS NOT NULL
