-- The named categories (?2, a JSON array): whether a run is ready, whether a run is held, and when
-- the next run is due. The index on due times does not contain the category, because every retry
-- writes to it; so earlier due runs of other categories are skipped one by one.
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
