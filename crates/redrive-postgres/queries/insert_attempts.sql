INSERT INTO redrive.attempts (
    kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
    class, code, message, fingerprint, cause, delay_us, worker, asked_us
)
SELECT
    kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
    class, code, message, fingerprint, cause, delay_us, worker, asked_us
FROM unnest(
    :kind::text[], :unit_id::bigint[], :stage::text[], :stage_config_hash::text[],
    :attempt::bigint[], :counted::boolean[], :run_id::text[], :started_at::timestamptz[],
    :ended_at::timestamptz[], :outcome::text[], :class::text[], :code::text[], :message::text[],
    :fingerprint::text[], :cause::text[], :delay_us::bigint[], :worker::text[],
    :asked_us::bigint[]
) WITH ORDINALITY AS new (
    kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
    class, code, message, fingerprint, cause, delay_us, worker, asked_us, place
)
ORDER BY place
