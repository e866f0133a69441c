-- The last ids of runs, ledger and journal.
SELECT
    (SELECT coalesce(max(id), 0) FROM runs), (SELECT coalesce(max(id), 0) FROM attempts),
    (SELECT coalesce(max(id), 0) FROM journal)
