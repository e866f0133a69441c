-- How far runs, ledger and journal go.
SELECT
    (SELECT coalesce(max(id), 0) FROM runs), (SELECT coalesce(max(id), 0) FROM attempts),
    (SELECT coalesce(max(id), 0) FROM journal)
