-- Of the named categories (:categories): whether a run is ready, whether one is held, and when the next is
-- due. Waiting runs of other categories that are due earlier are skipped one by one: the category is not in
-- their index, which every retry writes to. For held runs see backlog_any.
SELECT
    NOT EXISTS (SELECT FROM redrive.paused_queues WHERE queue = :queue)
        AND EXISTS (
            SELECT FROM unnest(:categories::text[]) AS allowed (category)
            CROSS JOIN LATERAL (
                SELECT FROM redrive.runs
                WHERE queue = :queue AND category = allowed.category AND ready
                LIMIT 1
            ) AS run
        ),
    EXISTS (
        SELECT FROM redrive.runs
        WHERE queue = :queue AND lease_owner IS NOT NULL AND category = ANY (:categories)
    ),
    (
        SELECT due_at FROM redrive.runs
        WHERE queue = :queue AND due_at IS NOT NULL AND category = ANY (:categories)
        ORDER BY due_at LIMIT 1
    )
