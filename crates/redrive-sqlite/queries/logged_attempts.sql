-- The newest attempts of a unit that have a log, the newest first.
SELECT attempt, printed FROM attempt_logs WHERE kind = ?1 AND unit_id = ?2 AND stage = ?3
ORDER BY attempt DESC LIMIT ?4
