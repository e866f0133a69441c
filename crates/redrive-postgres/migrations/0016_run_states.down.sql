-- Sessions of a store join row by row; whole tables are joined here.
SET LOCAL enable_seqscan = on;
SET LOCAL enable_hashjoin = on;

DROP VIEW redrive.run_records;
ALTER TABLE redrive.runs SET (fillfactor = 90),
    ADD COLUMN status text NOT NULL DEFAULT 'discovered',
    ADD COLUMN attempts bigint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    ADD COLUMN attempts_at_reset bigint NOT NULL DEFAULT 0 CHECK (attempts_at_reset >= 0),
    ADD COLUMN retry_count bigint NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    ADD COLUMN deferrals bigint NOT NULL DEFAULT 0 CHECK (deferrals >= 0),
    ADD COLUMN next_retry_at timestamptz,
    ADD COLUMN first_attempt_at timestamptz,
    ADD COLUMN error_class text CHECK (error_class IN ('final', 'retryable', 'rate_limited')),
    ADD COLUMN error_message text,
    ADD COLUMN result text,
    ADD COLUMN lease_epoch bigint NOT NULL DEFAULT 0,
    ADD COLUMN error_code text,
    ADD COLUMN fingerprint text COLLATE "C",
    ADD COLUMN last_failure_at timestamptz,
    ADD CONSTRAINT runs_status_check
        CHECK (status IN ('discovered', 'passed', 'needs_review', 'failed', 'error', 'cancelled'));

UPDATE redrive.runs AS run SET
    status = state.status, attempts = state.attempts, attempts_at_reset = state.attempts_at_reset,
    retry_count = state.retry_count, deferrals = state.deferrals, next_retry_at = state.next_retry_at,
    first_attempt_at = state.first_attempt_at, error_class = state.error_class, error_message = state.error_message,
    result = state.result, lease_epoch = state.lease_epoch, error_code = state.error_code,
    fingerprint = state.fingerprint, last_failure_at = state.last_failure_at
FROM redrive.run_states AS state WHERE state.id = run.id;

-- Runs that passed after failures.
UPDATE redrive.runs AS run SET
    status = 'passed', attempts = pass.attempt, attempts_at_reset = pass.attempts_at_reset,
    first_attempt_at = pass.first_attempt_at, result = pass.result, lease_epoch = pass.epoch,
    last_failure_at = pass.last_failure_at
FROM (
    SELECT epoch, entry.* FROM redrive.run_passes AS passes
    CROSS JOIN LATERAL unnest(
        run_ids, attempts, passes.attempts_at_reset, passes.first_attempt_at, results, passes.last_failure_at
    ) AS entry (run_id, attempt, attempts_at_reset, first_attempt_at, result, last_failure_at)
    WHERE attempts IS NOT NULL
) AS pass
WHERE pass.run_id = run.id;
INSERT INTO redrive.attempts (
    kind, unit_id, stage, attempt, counted, started_at, ended_at, outcome, worker
)
SELECT kind, unit_id, stage, attempt, counted, started_at, ended_at, outcome, worker
FROM redrive.pass_attempts WHERE attempt > 1 ORDER BY pass_id, unit_id;
ALTER TABLE redrive.run_passes DISABLE TRIGGER run_passes_pruned_alone;
DELETE FROM redrive.run_passes WHERE attempts IS NOT NULL;
ALTER TABLE redrive.run_passes ENABLE TRIGGER run_passes_pruned_alone;

DROP VIEW redrive.pass_attempts;
DROP TABLE redrive.run_states;
ALTER TABLE redrive.ready_runs DROP COLUMN has_state;
ALTER TABLE redrive.run_passes DROP COLUMN attempts, DROP COLUMN attempts_at_reset, DROP COLUMN first_attempt_at,
    DROP COLUMN last_failure_at;
CREATE INDEX runs_cause ON redrive.runs (fingerprint, id) INCLUDE (next_retry_at) WHERE status = 'error';
CREATE INDEX runs_open ON redrive.runs (id) WHERE status = 'error';
CREATE INDEX runs_not_passed ON redrive.runs (status, id) WHERE status IN ('needs_review', 'failed', 'cancelled');

-- What is known of a run, wherever it is stored.
CREATE VIEW redrive.run_records AS
SELECT
    run.id, run.queue, run.category, run.payload, run.submitted_at, run.not_before, run.idempotency_key,
    CASE
        WHEN held.epoch IS NOT NULL THEN 'processing'
        WHEN pass.epoch IS NOT NULL THEN 'passed'
        ELSE run.status
    END AS status,
    CASE WHEN pass.epoch IS NULL THEN run.attempts ELSE 1 END AS attempts,
    run.attempts_at_reset, run.retry_count, run.deferrals,
    CASE WHEN held.epoch IS NULL THEN run.next_retry_at END AS next_retry_at,
    coalesce(run.first_attempt_at, pass.started_at) AS first_attempt_at,
    run.error_class, run.error_message, coalesce(run.result, pass.result) AS result,
    held.owner AS lease_owner, coalesce(held.epoch, pass.epoch, run.lease_epoch) AS lease_epoch,
    held.lease_until, ready.id IS NOT NULL AS ready, due.due_at, run.error_code, run.fingerprint,
    run.last_failure_at, pass.ended_at AS passed_at
FROM redrive.runs AS run
LEFT JOIN LATERAL (
    SELECT id FROM redrive.ready_runs AS it
    WHERE it.queue = run.queue AND it.category = run.category AND it.submitted_at = run.submitted_at
        AND it.id = run.id
) AS ready ON true
LEFT JOIN LATERAL (
    SELECT due_at FROM redrive.due_runs AS it
    WHERE it.queue = run.queue AND it.due_at = coalesce(run.next_retry_at, run.not_before)
        AND it.id = run.id
) AS due ON true
LEFT JOIN LATERAL (
    SELECT epoch, owner, lease_until FROM redrive.run_claims AS it
    WHERE run.status IN ('discovered', 'error') AND ready.id IS NULL AND due.due_at IS NULL
        AND run.id BETWEEN it.first_run AND it.last_run AND run.id = ANY (it.run_ids)
    LIMIT 1
) AS held ON true
LEFT JOIN LATERAL (
    SELECT it.epoch, it.started_at[place.at], it.ended_at[place.at], it.results[place.at] AS result
    FROM redrive.run_passes AS it CROSS JOIN LATERAL array_position(it.run_ids, run.id) AS place (at)
    WHERE run.status = 'discovered' AND run.attempts = 0
        AND ready.id IS NULL AND due.due_at IS NULL AND held.epoch IS NULL
        AND it.block = run.id >> 8 AND place.at IS NOT NULL
    LIMIT 1
) AS pass ON true;

-- Runs that passed at their first attempt, as rows of the ledger.
CREATE VIEW redrive.pass_attempts AS
SELECT
    pass.id AS pass_id, pass.block, 'run'::text COLLATE "C" AS kind, entry.unit_id, ''::text COLLATE "C" AS stage,
    NULL::text AS stage_config_hash, 1::bigint AS attempt, true AS counted, NULL::text AS run_id,
    entry.started_at, entry.ended_at, 'success'::text AS outcome, NULL::text AS class, NULL::text AS code,
    NULL::text AS message, NULL::text AS fingerprint, NULL::text AS cause, NULL::bigint AS delay_us, pass.worker,
    NULL::bigint AS asked_us
FROM redrive.run_passes AS pass
CROSS JOIN LATERAL unnest(pass.run_ids, pass.started_at, pass.ended_at) AS entry (unit_id, started_at, ended_at);
