-- Answers with a row and tells the journal where the queue was paused.
WITH resumed AS (
    DELETE FROM redrive.paused_queues WHERE queue = :queue RETURNING queue
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, details)
    SELECT :at, :actor, :action, :details FROM resumed
)
SELECT true FROM resumed
