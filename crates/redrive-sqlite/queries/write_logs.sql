-- Writes the log of an attempt, unless a later one is there: of a later epoch, or with more.
INSERT INTO attempt_logs (kind, unit_id, stage, attempt, epoch, worker, printed, written_at, log)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (unit_id, kind, stage, attempt) DO UPDATE SET
    epoch = excluded.epoch, worker = excluded.worker, printed = excluded.printed,
    written_at = excluded.written_at, log = excluded.log
WHERE (excluded.epoch, excluded.printed) >= (attempt_logs.epoch, attempt_logs.printed)
