-- PostgreSQL only; SQLite keeps an anchor on the machine's boot clock. Not now(), which is constant in a
-- transaction.
SELECT clock_timestamp()
