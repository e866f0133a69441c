-- Of the named categories (?2, a JSON array): whether something is ready, whether something is held, and
-- when the next is due. Waiting runs of other categories that are due sooner are passed over one by
-- one; the category is not in their index, which every retry writes to.
SELECT
    NOT EXISTS (SELECT 1 FROM paused_queues WHERE queue = ?1)
        AND EXISTS (
            SELECT 1 FROM json_each(?2) AS allowed CROSS JOIN runs
            WHERE queue = ?1 AND category = allowed.value AND ready = 1
        ),
    EXISTS (
        SELECT 1 FROM runs INDEXED BY runs_held
        WHERE status = 'processing' AND queue = ?1
            AND category IN (SELECT value FROM json_each(?2))
    ),
    (
        SELECT due_at FROM runs INDEXED BY runs_due
        WHERE queue = ?1 AND due_at IS NOT NULL
            AND category IN (SELECT value FROM json_each(?2))
        ORDER BY due_at LIMIT 1
    )
