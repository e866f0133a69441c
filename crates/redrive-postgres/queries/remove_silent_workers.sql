DELETE FROM redrive.workers WHERE heard_at < :heard_before
