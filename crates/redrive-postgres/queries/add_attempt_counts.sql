INSERT INTO redrive.attempt_counts AS known (seconds, kind, place, started_at, outcome, attempts, took)
SELECT * FROM unnest(
    :seconds::bigint[], :kind::text[], :place::text[], :started_at::timestamptz[], :outcome::text[], :attempts::bigint[],
    :took::bigint[]
) AS given (seconds, kind, place, started_at, outcome, attempts, took)
ON CONFLICT (seconds, kind, place, started_at, outcome) DO UPDATE SET
    attempts = known.attempts + excluded.attempts, took = known.took + excluded.took
