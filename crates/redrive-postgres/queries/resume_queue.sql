-- Returns a row and writes a journal entry if the queue was paused.
WITH resumed AS (
    DELETE FROM redrive.paused_queues WHERE queue = :queue RETURNING queue
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, details)
    SELECT :at, :actor, :action, :details FROM resumed
)
SELECT true FROM resumed
