-- The submission time of the oldest ready run of a queue, over all categories, and the next due
-- time.
WITH RECURSIVE present (category) AS (
    SELECT (SELECT min(category) FROM runs WHERE queue = ?1 AND ready = 1)
    UNION ALL
    SELECT (
        SELECT min(category) FROM runs
        WHERE queue = ?1 AND ready = 1 AND category > present.category
    )
    FROM present WHERE present.category IS NOT NULL
)
SELECT
    min((
        SELECT min(submitted_at) FROM runs
        WHERE queue = ?1 AND category = present.category AND ready = 1
    )),
    (SELECT min(due_at) FROM runs WHERE queue = ?1 AND due_at IS NOT NULL)
FROM present WHERE present.category IS NOT NULL
