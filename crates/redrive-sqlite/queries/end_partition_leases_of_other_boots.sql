-- A lease from another boot has ended: nothing of that boot is alive. SQLite alone.
UPDATE partition_work SET lease_until = 0 WHERE lease_owner IS NOT NULL
