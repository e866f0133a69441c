-- One length of periods (PostgreSQL: all).
DELETE FROM attempt_counts WHERE seconds = ?1 AND started_at < ?2
