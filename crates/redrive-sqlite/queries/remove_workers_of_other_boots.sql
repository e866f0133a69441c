-- No process of another boot is alive. SQLite only.
DELETE FROM workers
