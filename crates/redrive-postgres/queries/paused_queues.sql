SELECT queue, paused_by, paused_at, reason FROM redrive.paused_queues ORDER BY queue
