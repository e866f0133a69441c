-- Claims from all categories; nothing from a paused queue. A skip scan of the index finds the
-- categories with ready runs. Then the categories are merged: take the oldest run, add the next run
-- of its category as a candidate, and repeat until the limit. OR FAIL: see claim_runs_in.
WITH RECURSIVE present (category) AS (
    -- CASE, because a condition would be evaluated for every ready run.
    SELECT CASE
        WHEN NOT EXISTS (SELECT 1 FROM paused_queues WHERE queue = ?1)
        THEN (SELECT min(category) FROM runs WHERE queue = ?1 AND ready = 1)
    END
    UNION ALL
    SELECT (
        SELECT min(category) FROM runs
        WHERE queue = ?1 AND ready = 1 AND category > present.category
    )
    FROM present WHERE present.category IS NOT NULL
),
oldest (category, submitted_at, id) AS (
    SELECT head.category, head.submitted_at, head.id
    FROM present
    CROSS JOIN runs AS head ON head.id = (
        SELECT id FROM runs
        WHERE queue = ?1 AND category = present.category AND ready = 1
        ORDER BY submitted_at, id LIMIT 1
    )
    UNION ALL
    SELECT next.category, next.submitted_at, next.id
    FROM oldest
    -- Two lookups, because one lookup of the pair would read every run with the same time again.
    CROSS JOIN runs AS next ON next.id = coalesce(
        (
            SELECT id FROM runs
            WHERE queue = ?1 AND category = oldest.category AND ready = 1
                AND submitted_at = oldest.submitted_at AND id > oldest.id
            ORDER BY id LIMIT 1
        ),
        (
            SELECT id FROM runs
            WHERE queue = ?1 AND category = oldest.category AND ready = 1
                AND submitted_at > oldest.submitted_at
            ORDER BY submitted_at, id LIMIT 1
        )
    )
    ORDER BY 2, 3
    LIMIT ?2
)
UPDATE OR FAIL runs SET
    status = 'processing', ready = 0, next_retry_at = NULL,
    lease_owner = ?3, lease_epoch = lease_epoch + 1, lease_until = ?4,
    claimed_at = ?5
WHERE id IN (SELECT id FROM oldest)
RETURNING id, category, payload, submitted_at, attempts, lease_epoch, retry_count, deferrals,
    first_attempt_at
