SELECT kind, unit_id, stage, attempt, epoch, worker, printed, written_at, log
FROM attempt_logs WHERE kind = ?1 AND unit_id = ?2 AND stage = ?3 AND attempt = ?4
