-- Of the named categories ($2): whether something is ready, whether something is held, and when the next
-- is due. Waiting runs of other categories that are due sooner are passed over one by one; the
-- category is not in their index, which every retry writes to. For what is held see backlog_any.
SELECT
    NOT EXISTS (SELECT FROM redrive.paused_queues WHERE queue = $1)
        AND EXISTS (
            SELECT FROM unnest($2::text[]) AS allowed (category)
            CROSS JOIN LATERAL (
                SELECT FROM redrive.runs
                WHERE queue = $1 AND category = allowed.category AND ready
                LIMIT 1
            ) AS run
        ),
    EXISTS (
        SELECT FROM redrive.runs
        WHERE queue = $1 AND status = 'processing' AND category = ANY ($2)
    ),
    (
        SELECT due_at FROM redrive.runs
        WHERE queue = $1 AND due_at IS NOT NULL AND category = ANY ($2)
        ORDER BY due_at LIMIT 1
    )
