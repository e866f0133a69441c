DELETE FROM workers WHERE heard_at < ?1
