-- The categories with ready runs, found by skipping along the index; see claim_runs_any.
WITH RECURSIVE present (category) AS (
    (
        SELECT category FROM redrive.ready_runs WHERE queue = :queue ORDER BY category DESC LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT category FROM redrive.ready_runs
        WHERE queue = :queue AND category < present.category
        ORDER BY category DESC LIMIT 1
    )
    FROM present WHERE present.category IS NOT NULL
)
SELECT category FROM present WHERE category IS NOT NULL
