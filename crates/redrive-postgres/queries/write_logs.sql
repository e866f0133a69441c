-- Writes the logs of attempts, unless a later one is there: of a later epoch, or with more.
INSERT INTO redrive.attempt_logs (kind, unit_id, stage, attempt, epoch, worker, printed, written_at, log)
SELECT kind, unit_id, stage, attempt, epoch, worker, printed, written_at, log
FROM unnest(
    :kind::text[], :unit_id::bigint[], :stage::text[], :attempt::bigint[], :epoch::bigint[], :worker::text[],
    :printed::bigint[], :written_at::timestamptz[], :log::text[]
) AS new (kind, unit_id, stage, attempt, epoch, worker, printed, written_at, log)
-- In the order of the key, so that two writers do not wait for each other in a circle.
ORDER BY unit_id, kind, stage, attempt
ON CONFLICT (unit_id, kind, stage, attempt) DO UPDATE SET
    epoch = excluded.epoch, worker = excluded.worker, printed = excluded.printed,
    written_at = excluded.written_at, log = excluded.log
WHERE (excluded.epoch, excluded.printed) >= (attempt_logs.epoch, attempt_logs.printed)
