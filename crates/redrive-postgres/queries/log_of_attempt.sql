SELECT kind, unit_id, stage, attempt, epoch, worker, printed, written_at, log
FROM redrive.attempt_logs WHERE kind = :kind AND unit_id = :unit_id AND stage = :stage AND attempt = :attempt
