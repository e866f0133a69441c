-- Many samples, with their rows of ledger and journal, in one query. A sample that is no longer held under
-- this epoch stays unchanged and gets no rows. A sample that advances to another stage starts there with
-- empty counts, and its worker keeps it if its run (:keeping_runs) is still running: then no indexed column
-- changes. If an operator reset the sample, the ledger may have attempts at the next stage. Returns the places in the batch that applied, and whether the sample was kept. SQLite takes one
-- sample at a time, with three statements. The order is that of renewals; for how rows are found see
-- finish_runs.
WITH finished AS (
    UPDATE redrive.samples AS sample SET
        status = given.status, stage = given.stage_place,
        claim_stage = CASE
            WHEN given.keep_until IS NOT NULL AND sample.run_id = ANY (given.going_on)
            THEN sample.claim_stage ELSE given.stage_place
        END,
        data = coalesce(given.data, sample.data),
        gate_key = CASE WHEN sample.stage = given.stage_place THEN sample.gate_key END,
        attempts = CASE
            WHEN sample.stage = given.stage_place OR sample.attempts_at_reset = 0 THEN given.attempts
            ELSE (
                SELECT count(*) FROM redrive.attempts AS past
                WHERE past.kind = 'sample' AND past.unit_id = sample.id AND past.stage = (
                    SELECT stages[given.stage_place + 1] FROM redrive.pipeline_runs WHERE id = sample.run_id
                )
            )
        END,
        attempts_at_reset = CASE
            WHEN sample.stage = given.stage_place OR sample.attempts_at_reset = 0
            THEN sample.attempts_at_reset
            ELSE (
                SELECT count(*) FROM redrive.attempts AS past
                WHERE past.kind = 'sample' AND past.unit_id = sample.id AND past.stage = (
                    SELECT stages[given.stage_place + 1] FROM redrive.pipeline_runs WHERE id = sample.run_id
                )
            )
        END,
        retry_count = given.retry_count, deferrals = given.deferrals,
        next_retry_at = given.next_retry_at, first_attempt_at = given.first_attempt_at,
        last_attempt_at = given.last_attempt_at, error_class = given.error_class,
        error_code = given.error_code, error_message = given.error_message,
        fingerprint = given.error_fingerprint, skip_reason = given.skip_reason,
        lease_owner = CASE
            WHEN given.keep_until IS NOT NULL AND sample.run_id = ANY (given.going_on) THEN given.worker
        END,
        lease_until = CASE WHEN sample.run_id = ANY (given.going_on) THEN given.keep_until END,
        lease_epoch = sample.lease_epoch + CASE
            WHEN given.keep_until IS NOT NULL AND sample.run_id = ANY (given.going_on) THEN 1 ELSE 0
        END,
        claimed_at = given.ended_at,
        last_failure_at = CASE
            WHEN given.error_class IS NULL THEN sample.last_failure_at ELSE given.ended_at
        END
    FROM (SELECT *, ARRAY(
        SELECT id FROM redrive.pipeline_runs
        WHERE id = ANY (:keeping_runs::bigint[]) AND status = 'running'
    ) AS going_on FROM unnest(
        :id::bigint[], :epoch::bigint[], :status::text[], :stage_place::bigint[], :data::text[],
        :attempts::bigint[], :retry_count::bigint[], :deferrals::bigint[],
        :next_retry_at::timestamptz[], :first_attempt_at::timestamptz[],
        :last_attempt_at::timestamptz[], :error_class::text[], :error_code::text[],
        :error_message::text[], :error_fingerprint::text[], :skip_reason::text[],
        :keep_until::timestamptz[], :kind::text[], :unit_id::bigint[], :stage::text[],
        :stage_config_hash::text[], :attempt::bigint[], :counted::boolean[], :run_id::text[],
        :started_at::timestamptz[], :ended_at::timestamptz[], :outcome::text[], :class::text[],
        :code::text[], :message::text[], :fingerprint::text[], :cause::text[], :delay_us::bigint[],
        :worker::text[], :asked_us::bigint[]
    ) WITH ORDINALITY AS given (
        id, epoch, status, stage_place, data, attempts, retry_count, deferrals, next_retry_at,
        first_attempt_at, last_attempt_at, error_class, error_code, error_message,
        error_fingerprint, skip_reason, keep_until, kind, unit_id, stage, stage_config_hash,
        attempt, counted, run_id, started_at, ended_at, outcome, class, code, message, fingerprint, cause, delay_us,
        worker, asked_us, place
    ) ORDER BY id LIMIT cardinality(:id)) AS given
    WHERE sample.id = given.id AND sample.lease_epoch = given.epoch
        AND sample.lease_owner IS NOT NULL
    RETURNING
        given.kind, given.unit_id, given.stage, given.stage_config_hash, given.attempt,
        given.counted, given.run_id, given.started_at, given.ended_at, given.outcome, given.class,
        given.code, given.message, given.fingerprint, given.cause, given.delay_us, given.worker,
        given.asked_us, given.place, sample.lease_owner IS NOT NULL AS kept
),
ledger AS (
    INSERT INTO redrive.attempts (
        kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at,
        outcome, class, code, message, fingerprint, cause, delay_us, worker, asked_us
    )
    SELECT
        kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at,
        outcome, class, code, message, fingerprint, cause, delay_us, worker, asked_us
    FROM finished ORDER BY place
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key
    FROM unnest(
        :finish_place::bigint[], :at::timestamptz[], :actor::text[], :action::text[],
        :unit::text[], :filter::text[], :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS entry
        (finish_place, at, actor, action, unit, filter, details, dedupe_key, place)
    -- For IS TRUE see finish_runs.
    WHERE (finish_place IN (SELECT place FROM finished)) IS TRUE
    ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place, kept FROM finished
