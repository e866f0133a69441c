-- The categories with ready runs, found by skipping along the index.
WITH RECURSIVE present (category) AS (
    SELECT (SELECT min(category) FROM runs WHERE queue = ?1 AND ready = 1)
    UNION ALL
    SELECT (
        SELECT min(category) FROM runs
        WHERE queue = ?1 AND ready = 1 AND category > present.category
    )
    FROM present WHERE present.category IS NOT NULL
)
SELECT category FROM present WHERE category IS NOT NULL
