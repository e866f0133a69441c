-- PostgreSQL only; SQLite has PRAGMA integrity_check. Finds invalid indexes, constraints that are not
-- validated, missing triggers of ledger and journal, and runs that are in two places of their queue at once.
SELECT format('index %s is invalid; rebuild it with REINDEX INDEX', index.indexrelid::regclass)
FROM pg_catalog.pg_index AS index
JOIN pg_catalog.pg_class AS relation ON relation.oid = index.indrelid
WHERE relation.relnamespace = 'redrive'::regnamespace
    AND NOT (index.indisvalid AND index.indisready AND index.indislive)
UNION ALL
SELECT format(
    'constraint %s of table %s is not validated', constraint_row.conname,
    constraint_row.conrelid::regclass
)
FROM pg_catalog.pg_constraint AS constraint_row
WHERE constraint_row.connamespace = 'redrive'::regnamespace AND NOT constraint_row.convalidated
UNION ALL
SELECT format('table redrive.%s lost its trigger %s: it is no longer append-only', kept.name, kept.trigger)
FROM (
    VALUES ('attempts', 'attempts_append_only'), ('attempts', 'attempts_pruned_alone'),
        ('attempts', 'attempts_kept'), ('run_passes', 'run_passes_append_only'),
        ('run_passes', 'run_passes_pruned_alone'), ('journal', 'journal_append_only')
) AS kept (name, trigger)
WHERE NOT EXISTS (
    SELECT FROM pg_catalog.pg_trigger AS trigger
    JOIN pg_catalog.pg_class AS relation ON relation.oid = trigger.tgrelid
    WHERE relation.relnamespace = 'redrive'::regnamespace
        AND relation.relname = kept.name AND trigger.tgname = kept.trigger
        AND trigger.tgenabled IN ('O', 'A')
)
UNION ALL
(
    SELECT format('run:%s is ready, waiting or claimed more than once', id)
    FROM (
        SELECT id FROM redrive.ready_runs
        UNION ALL SELECT id FROM redrive.due_runs
        UNION ALL SELECT unnest(run_ids) FROM redrive.run_claims
    ) AS place
    GROUP BY id HAVING count(*) > 1 ORDER BY id LIMIT 20
)
UNION ALL
(
    SELECT format('run:%s is ready, and a claim would not read what is known of it', ready.id)
    FROM redrive.ready_runs AS ready
    CROSS JOIN LATERAL (SELECT FROM redrive.run_states WHERE run_states.id = ready.id LIMIT 1) AS state
    WHERE NOT ready.has_state ORDER BY ready.id LIMIT 20
)
