-- Of every category: whether a run is ready, whether one is held, and when the next is due. Held runs are
-- found among those of all queues (runs_held).
SELECT
    NOT EXISTS (SELECT FROM redrive.paused_queues WHERE queue = :queue)
        AND EXISTS (SELECT FROM redrive.runs WHERE queue = :queue AND ready),
    EXISTS (SELECT FROM redrive.runs WHERE queue = :queue AND lease_owner IS NOT NULL),
    (
        SELECT due_at FROM redrive.runs WHERE queue = :queue AND due_at IS NOT NULL
        ORDER BY due_at LIMIT 1
    )
