-- In the caller's transaction: PostgreSQL sends it at the commit. Changes no setting of the transaction.
SELECT pg_catalog.pg_notify('redrive_wake', '')
