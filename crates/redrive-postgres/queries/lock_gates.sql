-- Until the transaction ends, no other claim and no other finish changes the rows of these gates (SQLite has one writer). The
-- locks (of a number for gates) are served in the order in which they were asked for. A client that stops half-way gives them back after a while.
SELECT set_config('idle_in_transaction_session_timeout', '5s', true), pg_advisory_xact_lock(1734440037, hash)
FROM (
    SELECT DISTINCT hashtext(name) AS hash FROM unnest(:name::text[]) AS named (name) ORDER BY hash OFFSET 0
) AS sorted
