-- Answers with a row and tells the journal where the queue was paused.
WITH resumed AS (
    DELETE FROM redrive.paused_queues WHERE queue = $1 RETURNING queue
),
told AS (
    INSERT INTO redrive.journal (at, actor, action, details) SELECT $2, $3, $4, $5 FROM resumed
)
SELECT true FROM resumed
