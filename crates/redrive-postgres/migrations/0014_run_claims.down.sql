-- Sessions of a store join row by row; whole tables are joined here.
SET LOCAL enable_seqscan = on;
SET LOCAL enable_hashjoin = on;

ALTER TABLE redrive.runs DROP CONSTRAINT runs_status_check,
    ADD COLUMN ready boolean NOT NULL DEFAULT false, ADD COLUMN due_at timestamptz, ADD COLUMN lease_owner text,
    ADD COLUMN lease_until timestamptz, ADD COLUMN claimed_at timestamptz,
    SET (fillfactor = 70);
ALTER TABLE redrive.runs ALTER COLUMN ready DROP DEFAULT;

UPDATE redrive.runs AS run SET ready = true FROM redrive.ready_runs AS ready WHERE ready.id = run.id;
UPDATE redrive.runs AS run SET due_at = due.due_at FROM redrive.due_runs AS due WHERE due.id = run.id;
UPDATE redrive.runs AS run SET
    status = 'processing', next_retry_at = NULL, lease_owner = held.owner, lease_epoch = held.epoch,
    lease_until = held.lease_until, claimed_at = held.claimed_at
FROM (
    SELECT claim.*, run_id FROM redrive.run_claims AS claim CROSS JOIN LATERAL unnest(claim.run_ids) AS run_id
) AS held
WHERE held.run_id = run.id;
UPDATE redrive.runs AS run SET
    status = 'passed', attempts = 1, first_attempt_at = pass.started_at, result = pass.result, lease_epoch = pass.epoch
FROM (
    SELECT epoch, entry.* FROM redrive.run_passes
    CROSS JOIN LATERAL unnest(run_ids, started_at, results) AS entry (run_id, started_at, result)
) AS pass
WHERE pass.run_id = run.id;
INSERT INTO redrive.attempts (
    kind, unit_id, stage, attempt, counted, started_at, ended_at, outcome, worker
)
SELECT kind, unit_id, stage, attempt, counted, started_at, ended_at, outcome, worker
FROM redrive.pass_attempts ORDER BY pass_id, unit_id;

DROP VIEW redrive.run_records, redrive.pass_attempts;
DROP TABLE redrive.ready_runs, redrive.due_runs, redrive.run_claims, redrive.run_passes;
DROP SEQUENCE redrive.run_epochs;

ALTER TABLE redrive.runs ADD CONSTRAINT runs_status_check
        CHECK (status IN ('discovered', 'processing', 'passed', 'needs_review', 'failed', 'error', 'cancelled')),
    ADD CONSTRAINT runs_ready_is_not_due CHECK (NOT ready OR due_at IS NULL),
    ADD CONSTRAINT runs_ready_is_waiting CHECK (NOT ready OR status IN ('discovered', 'error')),
    ADD CONSTRAINT runs_processing_is_leased CHECK ((status = 'processing') = (lease_owner IS NOT NULL)),
    ADD CONSTRAINT runs_lease_is_whole CHECK ((lease_owner IS NULL) = (lease_until IS NULL));
CREATE INDEX runs_ready ON redrive.runs (queue, category, submitted_at, id) WHERE ready;
CREATE INDEX runs_due ON redrive.runs (queue, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX runs_held ON redrive.runs (lease_until) WHERE lease_owner IS NOT NULL;
