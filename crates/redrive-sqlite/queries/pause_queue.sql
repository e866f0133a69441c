-- Changes nothing if the queue is paused already.
INSERT INTO paused_queues (queue, paused_at, paused_by, reason) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (queue) DO NOTHING
