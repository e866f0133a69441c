SELECT queue, paused_by, paused_at, reason FROM paused_queues ORDER BY queue
