-- In a transaction of somebody else's: told when it commits, and nothing of it is changed.
SELECT pg_catalog.pg_notify('redrive_wake', '')
