-- Before a claim that takes gates as open: none of them closes until the claim is committed (SQLite has one writer).
SELECT set_config('idle_in_transaction_session_timeout', '5s', true), pg_advisory_xact_lock_shared(1734440037, hash)
FROM (
    SELECT DISTINCT hashtext(name) AS hash FROM unnest(:name::text[]) AS named (name) ORDER BY hash OFFSET 0
) AS sorted
