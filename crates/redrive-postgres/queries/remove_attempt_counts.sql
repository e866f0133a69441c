DELETE FROM redrive.attempt_counts AS old
USING unnest(:seconds::bigint[], :before::timestamptz[]) AS given (seconds, before)
WHERE old.seconds = given.seconds AND old.started_at < given.before
