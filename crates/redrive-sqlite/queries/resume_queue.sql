DELETE FROM paused_queues WHERE queue = ?1
