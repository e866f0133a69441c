INSERT INTO redrive.attempts (
    kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
    class, code, message, fingerprint, cause, delay_us, worker
)
SELECT
    kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
    class, code, message, fingerprint, cause, delay_us, worker
FROM unnest(
    :kind::text[], :unit_id::bigint[], :stage::text[], :stage_config_hash::text[],
    :attempt::bigint[], :counted::boolean[], :run_id::text[], :started_at::timestamptz[],
    :ended_at::timestamptz[], :outcome::text[], :class::text[], :code::text[], :message::text[],
    :fingerprint::text[], :cause::text[], :delay_us::bigint[], :worker::text[]
) WITH ORDINALITY AS new (
    kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
    class, code, message, fingerprint, cause, delay_us, worker, place
)
ORDER BY place
