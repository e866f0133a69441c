-- One row (PostgreSQL: many).
INSERT INTO attempt_counts (seconds, kind, place, started_at, outcome, attempts, took)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (seconds, kind, place, started_at, outcome) DO UPDATE SET
    attempts = attempts + excluded.attempts, took = took + excluded.took
