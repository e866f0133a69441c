-- A lease of another boot has ended, because no process of that boot is alive. SQLite only.
UPDATE runs SET lease_until = 0 WHERE status = 'processing'
