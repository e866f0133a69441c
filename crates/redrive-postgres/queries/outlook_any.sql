-- Of every category: whether something is ready, whether something is held, and when the next is due.
-- No index knows what is held, because every claim and finish would write to it: where nothing is, all
-- runs are read.
SELECT
    NOT EXISTS (SELECT FROM redrive.paused_queues WHERE queue = :queue)
        AND EXISTS (SELECT FROM redrive.runs WHERE queue = :queue AND ready),
    EXISTS (SELECT FROM redrive.runs WHERE queue = :queue AND status = 'processing'),
    (
        SELECT due_at FROM redrive.runs WHERE queue = :queue AND due_at IS NOT NULL
        ORDER BY due_at LIMIT 1
    )
