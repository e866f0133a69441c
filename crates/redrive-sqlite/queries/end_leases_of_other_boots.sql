-- A lease from another boot has ended: nothing of that boot is alive. SQLite alone.
UPDATE runs SET lease_until = 0 WHERE status = 'processing'
