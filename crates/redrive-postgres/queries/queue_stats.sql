-- Reads every run once. No index has the counts, because every change of state would have to update them.
SELECT
    queue, status, next_retry_at IS NOT NULL AS waits, count(*),
    min(submitted_at) FILTER (WHERE ready), min(due_at), NULL::timestamptz
FROM redrive.runs GROUP BY queue, status, waits
UNION ALL
SELECT
    queue, NULL::text, NULL::boolean, NULL::bigint, NULL::timestamptz, NULL::timestamptz, paused_at
FROM redrive.paused_queues
