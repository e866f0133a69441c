-- All categories: whether a run is ready, whether a run is held, and when the next run is due. Held
-- runs are searched among the held runs of all queues.
SELECT
    NOT EXISTS (SELECT 1 FROM paused_queues WHERE queue = ?1)
        AND EXISTS (SELECT 1 FROM runs WHERE queue = ?1 AND ready = 1),
    EXISTS (
        SELECT 1 FROM runs INDEXED BY runs_held WHERE status = 'processing' AND queue = ?1
    ),
    (SELECT due_at FROM runs WHERE queue = ?1 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1)
