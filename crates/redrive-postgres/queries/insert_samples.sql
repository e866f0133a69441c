-- Many samples of one run ($1), numbered in the order they were given; at ($9) is when the lines that are
-- none died. The answer is the ids of those. SQLite takes one at a time.
WITH added AS (
    INSERT INTO redrive.samples (
        run_id, line, data, status, error_class, error_code, error_message, fingerprint,
        last_attempt_at
    )
    SELECT
        $1, line, data, status, error_class, error_code, error_message, fingerprint,
        CASE WHEN data IS NULL THEN $9::timestamptz END
    FROM unnest(
        $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[]
    ) WITH ORDINALITY AS new
        (line, data, status, error_class, error_code, error_message, fingerprint, place)
    ORDER BY place
    RETURNING id, line, status
)
SELECT id, line FROM added WHERE status = 'dlq'
