-- Claims from the named categories (?5, a JSON array of names, each with the most runs to claim of it); other categories are
-- not read, and a paused queue has no runs to claim. The categories are merged: take the oldest run, add the next run of
-- its category as a candidate, and repeat until the limit. OR FAIL: see claim_runs_in.
WITH RECURSIVE allowed (category, most) AS (
    SELECT value ->> 0, min(value ->> 1) FROM json_each(?5)
    WHERE NOT EXISTS (SELECT 1 FROM paused_queues WHERE queue = ?1)
    GROUP BY 1
),
oldest (category, submitted_at, id, rest) AS (
    SELECT head.category, head.submitted_at, head.id, allowed.most - 1
    FROM allowed
    CROSS JOIN runs AS head ON head.id = (
        SELECT id FROM runs
        WHERE queue = ?1 AND category = allowed.category AND ready = 1
        ORDER BY submitted_at, id LIMIT 1
    )
    WHERE allowed.most > 0
    UNION ALL
    SELECT next.category, next.submitted_at, next.id, oldest.rest - 1
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
    WHERE oldest.rest > 0
    ORDER BY 2, 3
    LIMIT ?2
)
UPDATE OR FAIL runs SET
    status = 'processing', ready = 0, next_retry_at = NULL,
    lease_owner = ?3, lease_epoch = lease_epoch + 1, lease_until = ?4,
    claimed_at = ?6
WHERE id IN (SELECT id FROM oldest)
RETURNING id, category, payload, submitted_at, attempts, lease_epoch, retry_count, deferrals,
    first_attempt_at
