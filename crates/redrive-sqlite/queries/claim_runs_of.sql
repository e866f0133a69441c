-- Claims of the named categories (?5, a JSON array); others are never looked at, and a paused queue
-- has none. Their queues are merged: the oldest run of all is taken and the next of its category joins
-- the contest, until the limit is reached. OR FAIL: see
-- claim_runs_in.
WITH RECURSIVE allowed (category) AS (
    SELECT DISTINCT value FROM json_each(?5)
    WHERE NOT EXISTS (SELECT 1 FROM paused_queues WHERE queue = ?1)
),
oldest (category, submitted_at, id) AS (
    SELECT head.category, head.submitted_at, head.id
    FROM allowed
    CROSS JOIN runs AS head ON head.id = (
        SELECT id FROM runs
        WHERE queue = ?1 AND category = allowed.category AND ready = 1
        ORDER BY submitted_at, id LIMIT 1
    )
    UNION ALL
    SELECT next.category, next.submitted_at, next.id
    FROM oldest
    -- Two looks, because one for the pair would read every run of the same moment again.
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
    lease_owner = ?3, lease_epoch = lease_epoch + 1, lease_until = ?4
WHERE id IN (SELECT id FROM oldest)
RETURNING id, category, payload, submitted_at, attempts, lease_epoch, retry_count, deferrals,
    first_attempt_at
