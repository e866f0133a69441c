-- Changes nothing where the queue is paused already; otherwise answers with a row and tells the journal.
WITH paused AS (
    INSERT INTO redrive.paused_queues (queue, paused_at, paused_by, reason)
    VALUES ($1, $2, $3, $4)
    ON CONFLICT (queue) DO NOTHING
    RETURNING paused_at, paused_by
),
told AS (
    INSERT INTO redrive.journal (at, actor, action, details)
    SELECT paused_at, paused_by, $5, $6 FROM paused
)
SELECT true FROM paused
