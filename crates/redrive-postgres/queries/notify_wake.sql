-- PostgreSQL alone: SQLite has nobody to tell. The commit of a notification holds a lock that every
-- other notification of the server waits for, so it does not wait for the disk: nothing is lost with it.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('redrive_wake', '')
