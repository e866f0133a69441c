-- PostgreSQL only; SQLite has PRAGMA integrity_check. Finds invalid indexes, constraints that are not
-- validated, missing triggers of ledger and journal, runs that are in two places of their queue at once, and places that
-- contradict what is known of their run.
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
    SELECT format('run:%s is %s, %s', place.id, place.name, found.problem)
    FROM (
        SELECT 'ready' AS name, id, queue, category, submitted_at, NULL::timestamptz AS due_at, has_state, false AS astray
        FROM redrive.ready_runs
        UNION ALL SELECT 'waiting', id, queue, category, submitted_at, due_at, NOT fresh, false FROM redrive.due_runs
        UNION ALL SELECT 'claimed', run.id, queue, NULL, NULL, NULL, true,
            first_run >> 8 <> last_run >> 8 OR run.id NOT BETWEEN first_run AND last_run
        FROM redrive.run_claims CROSS JOIN LATERAL unnest(run_ids) AS run (id)
    ) AS place
    LEFT JOIN LATERAL (SELECT * FROM redrive.runs WHERE runs.id = place.id LIMIT 1) AS run ON true
    LEFT JOIN LATERAL (SELECT * FROM redrive.run_states WHERE run_states.id = place.id LIMIT 1) AS state ON true
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN run.id IS NULL THEN 'and does not exist'
            WHEN state.status NOT IN ('discovered', 'error') OR state.status = 'error' AND state.next_retry_at IS NULL
                OR place.name = 'claimed' AND EXISTS (
                    SELECT FROM redrive.run_passes AS pass WHERE pass.block = place.id >> 8 AND place.id = ANY (pass.run_ids)
                ) THEN 'and has ended'
            WHEN place.queue <> run.queue OR place.category <> run.category OR place.submitted_at <> run.submitted_at
                THEN 'with another queue, category or time of submission than its own'
            WHEN place.due_at IS DISTINCT FROM coalesce(state.next_retry_at, run.not_before) AND place.name = 'waiting'
                THEN 'until another time than its own'
            WHEN state.id IS NOT NULL AND NOT place.has_state THEN 'and a claim would not read what is known of it'
            WHEN place.astray THEN 'by a claim of other ids'
        END
    ) AS found (problem)
    WHERE found.problem IS NOT NULL ORDER BY place.id LIMIT 20
)
