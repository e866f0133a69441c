-- A run keeps what was submitted. What is known of runs that failed moves to a narrow table, so that neither a failure
-- nor the pass that follows it rewrites the run and its index entries; passes after failures join the others. A worker of
-- an earlier version cannot finish its runs after this: their leases end, and they are claimed again.
CREATE TABLE redrive.run_states (
    id               bigint PRIMARY KEY,
    -- As in the run.
    queue            text COLLATE "C" NOT NULL,
    category         text COLLATE "C" NOT NULL,
    submitted_at     timestamptz NOT NULL,
    status           text NOT NULL CHECK (status IN
                     ('discovered', 'passed', 'needs_review', 'failed', 'error', 'cancelled')),
    -- Whether next_retry_at is set, for an index that another time does not change.
    waits            boolean NOT NULL DEFAULT false,
    attempts         bigint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- The attempts before the last retry by an operator, which starts the count again.
    attempts_at_reset bigint NOT NULL DEFAULT 0 CHECK (attempts_at_reset >= 0),
    retry_count      bigint NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    deferrals        bigint NOT NULL DEFAULT 0 CHECK (deferrals >= 0),
    next_retry_at    timestamptz,
    first_attempt_at timestamptz,
    last_failure_at  timestamptz,
    -- The epoch of the last lease that ended.
    lease_epoch      bigint NOT NULL DEFAULT 0,
    error_class      text CHECK (error_class IN ('final', 'retryable', 'rate_limited')),
    error_code       text,
    error_message    text,
    -- The cause of the last failure.
    fingerprint      text COLLATE "C",
    result           text,
    CONSTRAINT run_states_wait_until CHECK (waits = (next_retry_at IS NOT NULL))
) WITH (fillfactor = 80);

-- Sessions of a store join row by row; whole tables are joined here.
SET LOCAL enable_seqscan = on;
SET LOCAL enable_hashjoin = on;

INSERT INTO redrive.run_states (
    id, queue, category, submitted_at, waits, status, attempts, attempts_at_reset, retry_count, deferrals,
    next_retry_at, first_attempt_at, last_failure_at, lease_epoch, error_class, error_code, error_message, fingerprint, result
)
SELECT
    id, queue, category, submitted_at, next_retry_at IS NOT NULL, status, attempts, attempts_at_reset, retry_count,
    deferrals, next_retry_at, first_attempt_at, last_failure_at, lease_epoch, error_class, error_code, error_message,
    fingerprint, result
FROM redrive.runs WHERE status <> 'discovered' OR attempts > 0 OR lease_epoch > 0;
CREATE INDEX run_states_cause ON redrive.run_states (fingerprint, id) INCLUDE (waits) WHERE status = 'error';
CREATE INDEX run_states_not_passed ON redrive.run_states (status, id)
    WHERE status IN ('needs_review', 'failed', 'cancelled');

ALTER TABLE redrive.ready_runs ADD COLUMN has_state boolean NOT NULL DEFAULT false;
UPDATE redrive.ready_runs AS ready SET has_state = true FROM redrive.run_states AS state WHERE state.id = ready.id;

ALTER TABLE redrive.run_passes ADD COLUMN attempts bigint[], ADD COLUMN attempts_at_reset bigint[],
    ADD COLUMN first_attempt_at timestamptz[], ADD COLUMN last_failure_at timestamptz[],
    ADD CONSTRAINT run_passes_know_the_past CHECK (
        attempts IS NULL OR cardinality(attempts) = cardinality(run_ids)
            AND cardinality(attempts_at_reset) = cardinality(run_ids)
            AND cardinality(first_attempt_at) = cardinality(run_ids)
            AND cardinality(last_failure_at) = cardinality(run_ids));
ALTER TABLE redrive.run_passes ALTER COLUMN attempts SET STORAGE EXTERNAL,
    ALTER COLUMN attempts_at_reset SET STORAGE EXTERNAL, ALTER COLUMN first_attempt_at SET STORAGE EXTERNAL,
    ALTER COLUMN last_failure_at SET STORAGE EXTERNAL;

DROP VIEW redrive.run_records, redrive.pass_attempts;
DROP INDEX redrive.runs_cause, redrive.runs_open, redrive.runs_not_passed;
ALTER TABLE redrive.runs RESET (fillfactor),
    DROP COLUMN status, DROP COLUMN attempts, DROP COLUMN attempts_at_reset, DROP COLUMN retry_count,
    DROP COLUMN deferrals, DROP COLUMN next_retry_at, DROP COLUMN first_attempt_at, DROP COLUMN last_failure_at,
    DROP COLUMN lease_epoch, DROP COLUMN error_class, DROP COLUMN error_code, DROP COLUMN error_message,
    DROP COLUMN fingerprint, DROP COLUMN result;

-- What is known of a run, wherever it is stored.
CREATE VIEW redrive.run_records AS
SELECT
    run.id, run.queue, run.category, run.payload, run.submitted_at, run.not_before, run.idempotency_key,
    CASE
        WHEN held.epoch IS NOT NULL THEN 'processing'
        WHEN pass.epoch IS NOT NULL THEN 'passed'
        ELSE coalesce(state.status, 'discovered')
    END AS status,
    coalesce(pass.attempt, state.attempts, 0) AS attempts,
    coalesce(pass.attempts_at_reset, state.attempts_at_reset, 0) AS attempts_at_reset,
    coalesce(state.retry_count, 0) AS retry_count, coalesce(state.deferrals, 0) AS deferrals,
    CASE WHEN held.epoch IS NULL THEN state.next_retry_at END AS next_retry_at,
    coalesce(state.first_attempt_at, pass.first_attempt_at) AS first_attempt_at,
    state.error_class, state.error_message, coalesce(state.result, pass.result) AS result,
    held.owner AS lease_owner, coalesce(held.epoch, pass.epoch, state.lease_epoch, 0) AS lease_epoch,
    held.lease_until, ready.id IS NOT NULL AS ready, due.due_at, state.error_code, state.fingerprint,
    coalesce(state.last_failure_at, pass.last_failure_at) AS last_failure_at, pass.ended_at AS passed_at
FROM redrive.runs AS run
LEFT JOIN redrive.run_states AS state ON state.id = run.id
LEFT JOIN LATERAL (
    SELECT id FROM redrive.ready_runs AS it
    WHERE it.queue = run.queue AND it.category = run.category AND it.submitted_at = run.submitted_at
        AND it.id = run.id
) AS ready ON true
LEFT JOIN LATERAL (
    SELECT due_at FROM redrive.due_runs AS it
    WHERE it.queue = run.queue AND it.due_at = coalesce(state.next_retry_at, run.not_before)
        AND it.id = run.id
) AS due ON true
LEFT JOIN LATERAL (
    SELECT epoch, owner, lease_until FROM redrive.run_claims AS it
    WHERE coalesce(state.status, 'discovered') IN ('discovered', 'error') AND ready.id IS NULL AND due.due_at IS NULL
        AND run.id BETWEEN it.first_run AND it.last_run AND run.id = ANY (it.run_ids)
    LIMIT 1
) AS held ON true
LEFT JOIN LATERAL (
    SELECT
        it.epoch, it.started_at[place.at], it.ended_at[place.at], it.results[place.at] AS result,
        coalesce(it.attempts[place.at], 1) AS attempt, it.attempts_at_reset[place.at],
        coalesce(it.first_attempt_at[place.at], it.started_at[place.at]) AS first_attempt_at,
        it.last_failure_at[place.at]
    FROM redrive.run_passes AS it CROSS JOIN LATERAL array_position(it.run_ids, run.id) AS place (at)
    WHERE coalesce(state.status, 'discovered') = 'discovered' AND coalesce(state.attempts, 0) = 0
        AND ready.id IS NULL AND due.due_at IS NULL AND held.epoch IS NULL
        AND it.block = run.id >> 8 AND place.at IS NOT NULL
    LIMIT 1
) AS pass ON true;

-- The attempts by which runs passed, as rows of the ledger.
CREATE VIEW redrive.pass_attempts AS
SELECT
    pass.id AS pass_id, pass.block, 'run'::text COLLATE "C" AS kind, entry.unit_id, ''::text COLLATE "C" AS stage,
    NULL::text AS stage_config_hash, coalesce(entry.attempt, 1) AS attempt, true AS counted, NULL::text AS run_id,
    entry.started_at, entry.ended_at, 'success'::text AS outcome, NULL::text AS class, NULL::text AS code,
    NULL::text AS message, NULL::text AS fingerprint, NULL::text AS cause, NULL::bigint AS delay_us, pass.worker,
    NULL::bigint AS asked_us
FROM redrive.run_passes AS pass
CROSS JOIN LATERAL unnest(pass.run_ids, pass.started_at, pass.ended_at, pass.attempts)
    AS entry (unit_id, started_at, ended_at, attempt);
