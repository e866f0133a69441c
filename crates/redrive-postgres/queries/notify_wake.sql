-- PostgreSQL only: SQLite has no notifications. The commit of a notification
-- holds a lock that every other notification of the server waits for, so this commit does not wait for the
-- disk: it has nothing to lose.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('redrive_wake', '')
