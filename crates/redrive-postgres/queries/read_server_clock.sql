-- PostgreSQL alone; SQLite keeps an anchor on the machine's boot clock. Not now(), which stands still
-- in a transaction.
SELECT clock_timestamp()
