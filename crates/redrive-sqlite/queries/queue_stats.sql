-- Reads every run once. No index has the counts; keeping them would be paid by every change of state.
SELECT
    queue, status, next_retry_at IS NOT NULL AS waits, count(*),
    min(CASE WHEN ready = 1 THEN submitted_at END), min(due_at), NULL
FROM runs GROUP BY queue, status, waits
UNION ALL
SELECT queue, NULL, NULL, NULL, NULL, NULL, paused_at FROM paused_queues
