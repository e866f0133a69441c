-- Reads every run once. No index has the counts, because every change of state would have to update them. Runs that
-- are ready, due or held are counted in their own tables; of the others, those without a state have passed.
WITH stored AS MATERIALIZED (
    SELECT queue, count(*) AS runs FROM redrive.runs GROUP BY queue
),
stated AS MATERIALIZED (
    SELECT queue, status, waits, count(*) AS runs FROM redrive.run_states
    WHERE status <> 'discovered' GROUP BY queue, status, waits
),
held AS MATERIALIZED (
    SELECT claim.queue, state.status, coalesce(state.waits, false) AS waits, count(*) AS runs
    FROM redrive.run_claims AS claim CROSS JOIN LATERAL unnest(claim.run_ids) AS held (id)
    LEFT JOIN LATERAL (
        SELECT status, waits FROM redrive.run_states
        WHERE run_states.id = held.id AND status <> 'discovered' LIMIT 1
    ) AS state ON true
    GROUP BY claim.queue, state.status, state.waits
),
ready AS MATERIALIZED (
    SELECT queue, count(*) FILTER (WHERE fresh) AS fresh, min(submitted_at) AS oldest
    FROM redrive.ready_runs GROUP BY queue
),
due AS MATERIALIZED (
    SELECT queue, count(*) FILTER (WHERE fresh) AS fresh, min(due_at) AS next FROM redrive.due_runs GROUP BY queue
)
SELECT queue, status, waits, sum(runs)::bigint, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz
FROM (
    SELECT queue, 'passed' AS status, false AS waits, runs FROM stored
    UNION ALL
    SELECT queue, status, waits, runs FROM stated
    UNION ALL
    SELECT queue, 'passed', false, -runs FROM stated
    UNION ALL
    SELECT queue, coalesce(status, 'passed'), waits, -runs FROM held
    UNION ALL
    SELECT queue, 'processing', false, runs FROM held
    UNION ALL
    SELECT queue, moved.status, false, moved.runs
    FROM (SELECT queue, fresh FROM ready UNION ALL SELECT queue, fresh FROM due) AS waiting
    CROSS JOIN LATERAL (VALUES ('discovered', fresh), ('passed', -fresh)) AS moved (status, runs)
) AS counted
GROUP BY queue, status, waits HAVING sum(runs) <> 0
UNION ALL
SELECT queue, NULL, NULL, NULL, oldest, NULL, NULL FROM ready
UNION ALL
SELECT queue, NULL, NULL, NULL, NULL, next, NULL FROM due
UNION ALL
SELECT queue, NULL, NULL, NULL, NULL, NULL, paused_at FROM redrive.paused_queues
