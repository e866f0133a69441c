-- Many samples, with their rows of ledger and journal, in one statement. A sample that is no longer held
-- under this epoch changes nothing and gets no rows. One that goes on to another stage begins there with
-- nothing, and stays with who keeps it if its run ($43) goes on: then no column of an index changes. The
-- answer is which places in the batch applied, and whether the sample was kept. SQLite takes one sample at a time, and three statements. The
-- order is that of renewals; how rows are found: see finish_runs.
WITH finished AS (
    UPDATE redrive.samples AS sample SET
        status = given.status, stage = given.stage_place,
        claim_stage = CASE
            WHEN given.keep_until IS NOT NULL AND sample.run_id = ANY (given.going_on)
            THEN sample.claim_stage ELSE given.stage_place
        END,
        data = coalesce(given.data, sample.data),
        attempts = given.attempts,
        attempts_at_reset = CASE
            WHEN sample.stage = given.stage_place THEN sample.attempts_at_reset ELSE 0
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
        END
    FROM (SELECT *, ARRAY(
        SELECT id FROM redrive.pipeline_runs WHERE id = ANY ($43::bigint[]) AND status = 'running'
    ) AS going_on FROM unnest(
        $1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[],
        $8::bigint[], $9::timestamptz[], $10::timestamptz[], $11::timestamptz[], $12::text[],
        $13::text[], $14::text[], $15::text[], $16::text[], $17::timestamptz[], $18::text[], $19::bigint[], $20::text[],
        $21::text[], $22::bigint[], $23::boolean[], $24::text[], $25::timestamptz[],
        $26::timestamptz[], $27::text[], $28::text[], $29::text[], $30::text[], $31::text[],
        $32::text[], $33::bigint[], $34::text[]
    ) WITH ORDINALITY AS given (
        id, epoch, status, stage_place, data, attempts, retry_count, deferrals, next_retry_at,
        first_attempt_at, last_attempt_at, error_class, error_code, error_message,
        error_fingerprint, skip_reason, keep_until, kind, unit_id, stage, stage_config_hash, attempt, counted,
        run_id, started_at, ended_at, outcome, class, code, message, fingerprint, cause, delay_us,
        worker, place
    ) ORDER BY id LIMIT cardinality($1)) AS given
    WHERE sample.id = given.id AND sample.lease_epoch = given.epoch
        AND sample.lease_owner IS NOT NULL
    RETURNING
        given.kind, given.unit_id, given.stage, given.stage_config_hash, given.attempt,
        given.counted, given.run_id, given.started_at, given.ended_at, given.outcome, given.class,
        given.code, given.message, given.fingerprint, given.cause, given.delay_us, given.worker,
        given.place, sample.lease_owner IS NOT NULL AS kept
),
ledger AS (
    INSERT INTO redrive.attempts (
        kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at,
        outcome, class, code, message, fingerprint, cause, delay_us, worker
    )
    SELECT
        kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at,
        outcome, class, code, message, fingerprint, cause, delay_us, worker
    FROM finished ORDER BY place
),
told AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key
    FROM unnest(
        $35::bigint[], $36::timestamptz[], $37::text[], $38::text[], $39::text[], $40::text[],
        $41::text[], $42::text[]
    ) WITH ORDINALITY AS entry
        (finish_place, at, actor, action, unit, filter, details, dedupe_key, place)
    -- IS TRUE: see finish_runs.
    WHERE (finish_place IN (SELECT place FROM finished)) IS TRUE
    ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place, kept FROM finished
