-- Many attempts.
INSERT INTO redrive.attempts (
    kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
    class, code, message, fingerprint, cause, delay_us, worker
)
SELECT
    kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
    class, code, message, fingerprint, cause, delay_us, worker
FROM unnest(
    $1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::boolean[], $7::text[],
    $8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[], $12::text[], $13::text[],
    $14::text[], $15::text[], $16::bigint[], $17::text[]
) WITH ORDINALITY AS new (
    kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
    class, code, message, fingerprint, cause, delay_us, worker, place
)
ORDER BY place
