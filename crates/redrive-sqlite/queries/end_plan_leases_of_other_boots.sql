-- A lease of another boot has ended, because no process of that boot is alive. SQLite only.
UPDATE plans SET lease_until = 0 WHERE lease_owner IS NOT NULL
