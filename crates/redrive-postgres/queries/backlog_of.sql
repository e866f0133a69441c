-- Of the named categories (:categories): whether a run is ready, whether one is held, and when the next is
-- due. Waiting runs of other categories that are due earlier are skipped one by one: the category is not in
-- their index, which every retry writes to.
SELECT
    NOT EXISTS (SELECT FROM redrive.paused_queues WHERE queue = :queue)
        AND EXISTS (
            SELECT FROM unnest(:categories::text[]) AS allowed (category)
            CROSS JOIN LATERAL (
                SELECT FROM redrive.ready_runs
                WHERE queue = :queue AND category = allowed.category
                LIMIT 1
            ) AS run
        ),
    EXISTS (
        SELECT FROM redrive.run_claims AS claim CROSS JOIN LATERAL unnest(claim.run_ids) AS held (id)
        CROSS JOIN LATERAL (SELECT * FROM redrive.runs WHERE runs.id = held.id LIMIT 1) AS run
        WHERE claim.queue = :queue AND run.category = ANY (:categories)
    ),
    (
        SELECT due_at FROM redrive.due_runs
        WHERE queue = :queue AND category = ANY (:categories)
        ORDER BY due_at LIMIT 1
    )
