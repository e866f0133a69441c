-- Changes nothing if the queue is paused already; otherwise returns a row and writes a journal entry.
WITH paused AS (
    INSERT INTO redrive.paused_queues (queue, paused_at, paused_by, reason)
    VALUES (:queue, :at, :actor, :reason)
    ON CONFLICT (queue) DO NOTHING
    RETURNING paused_at, paused_by
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, details)
    SELECT paused_at, paused_by, :action, :details FROM paused
)
SELECT true FROM paused
