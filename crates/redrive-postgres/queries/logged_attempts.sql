-- The newest attempts of a unit that have a log, the newest first.
SELECT attempt, printed FROM redrive.attempt_logs WHERE kind = :kind AND unit_id = :unit_id AND stage = :stage
ORDER BY attempt DESC LIMIT :limit::bigint
