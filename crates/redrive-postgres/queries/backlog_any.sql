-- Of every category: whether a run is ready, whether one is held, and when the next is due.
SELECT
    NOT EXISTS (SELECT FROM redrive.paused_queues WHERE queue = :queue)
        AND EXISTS (SELECT FROM redrive.ready_runs WHERE queue = :queue),
    EXISTS (SELECT FROM redrive.run_claims WHERE queue = :queue),
    (
        SELECT due_at FROM redrive.due_runs WHERE queue = :queue
        ORDER BY due_at LIMIT 1
    )
