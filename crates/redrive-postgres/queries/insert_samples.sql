-- Many samples of one run (:run_id), numbered in the given order. Lines that are not samples are dead letters
-- since :at; their ids are returned. SQLite takes one at a time.
WITH added AS (
    INSERT INTO redrive.samples (
        run_id, line, data, status, error_class, error_code, error_message, fingerprint,
        last_attempt_at, last_failure_at, line_hash
    )
    SELECT
        :run_id, line, data, status, error_class, error_code, error_message, fingerprint,
        CASE WHEN data IS NULL THEN :at::timestamptz END,
        CASE WHEN data IS NULL THEN :at::timestamptz END, line_hash
    FROM unnest(
        :line::bigint[], :data::text[], :status::text[], :error_class::text[], :error_code::text[],
        :error_message::text[], :fingerprint::text[], :line_hash::bigint[]
    ) WITH ORDINALITY AS new
        (line, data, status, error_class, error_code, error_message, fingerprint, line_hash, place)
    ORDER BY place
    RETURNING id, line, status
)
SELECT id, line FROM added WHERE status = 'dlq'
