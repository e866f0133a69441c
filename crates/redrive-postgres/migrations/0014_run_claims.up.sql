-- Claims and plain successes no longer rewrite runs. Ready and waiting runs have tables of their own, a lease is one
-- row for many runs of a claim, and runs that pass at their first attempt are rows of the ledger with arrays. A worker of
-- an earlier version cannot finish its runs after this: their leases end, and they are claimed again.
CREATE TABLE redrive.ready_runs (
    queue        text COLLATE "C" NOT NULL,
    category     text COLLATE "C" NOT NULL,
    submitted_at timestamptz NOT NULL,
    id           bigint NOT NULL,
    -- Whether the run is discovered, and not in error.
    fresh        boolean NOT NULL,
    CONSTRAINT ready_runs_key PRIMARY KEY (queue, category, submitted_at, id)
);

CREATE TABLE redrive.due_runs (
    queue        text COLLATE "C" NOT NULL,
    due_at       timestamptz NOT NULL,
    id           bigint NOT NULL,
    category     text COLLATE "C" NOT NULL,
    submitted_at timestamptz NOT NULL,
    fresh        boolean NOT NULL,
    CONSTRAINT due_runs_key PRIMARY KEY (queue, due_at, id)
);

CREATE SEQUENCE redrive.run_epochs;

CREATE TABLE redrive.run_claims (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    epoch       bigint NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    owner       text NOT NULL,
    lease_until timestamptz NOT NULL,
    claimed_at  timestamptz,
    first_run   bigint NOT NULL,
    last_run    bigint NOT NULL,
    run_ids     bigint[] NOT NULL CHECK (cardinality(run_ids) >= 1)
) WITH (fillfactor = 50);

CREATE INDEX run_claims_epoch ON redrive.run_claims (epoch);

CREATE TABLE redrive.run_passes (
    id         bigint PRIMARY KEY DEFAULT nextval('redrive.attempts_id_seq'),
    block      bigint NOT NULL,
    epoch      bigint NOT NULL,
    worker     text NOT NULL,
    run_ids    bigint[] NOT NULL CHECK (cardinality(run_ids) >= 1),
    started_at timestamptz[] NOT NULL,
    ended_at   timestamptz[] NOT NULL,
    results    text[],
    CONSTRAINT run_passes_are_whole CHECK (
        cardinality(started_at) = cardinality(run_ids) AND cardinality(ended_at) = cardinality(run_ids)
        AND (results IS NULL OR cardinality(results) = cardinality(run_ids)))
);

-- Not compressed: that costs more than it saves.
ALTER TABLE redrive.run_passes ALTER COLUMN run_ids SET STORAGE EXTERNAL,
    ALTER COLUMN started_at SET STORAGE EXTERNAL, ALTER COLUMN ended_at SET STORAGE EXTERNAL;
CREATE INDEX run_passes_block ON redrive.run_passes (block);

CREATE TRIGGER run_passes_append_only BEFORE TRUNCATE ON redrive.run_passes
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.refuse_change('ledger');
CREATE TRIGGER run_passes_pruned_alone BEFORE UPDATE OR DELETE ON redrive.run_passes
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.refuse_unless_pruning();

-- Sessions of a store join row by row; whole tables are joined here.
SET LOCAL enable_seqscan = on;
SET LOCAL enable_hashjoin = on;

INSERT INTO redrive.ready_runs (queue, category, submitted_at, id, fresh)
SELECT queue, category, submitted_at, id, status = 'discovered' FROM redrive.runs WHERE ready;
INSERT INTO redrive.due_runs (queue, due_at, id, category, submitted_at, fresh)
SELECT queue, due_at, id, category, submitted_at, status = 'discovered' FROM redrive.runs WHERE due_at IS NOT NULL;
INSERT INTO redrive.run_claims (epoch, queue, owner, lease_until, claimed_at, first_run, last_run, run_ids)
SELECT lease_epoch, queue, lease_owner, lease_until, claimed_at, min(id), max(id), array_agg(id ORDER BY id)
FROM redrive.runs WHERE lease_owner IS NOT NULL
GROUP BY lease_epoch, queue, lease_owner, lease_until, claimed_at, id >> 8;
SELECT setval('redrive.run_epochs', coalesce(max(lease_epoch), 0) + 1, false) FROM redrive.runs;

DROP INDEX redrive.runs_ready, redrive.runs_due, redrive.runs_held;
ALTER TABLE redrive.runs DROP CONSTRAINT runs_status_check,
    DROP COLUMN ready, DROP COLUMN due_at, DROP COLUMN lease_owner, DROP COLUMN lease_until, DROP COLUMN claimed_at,
    SET (fillfactor = 90);
UPDATE redrive.runs SET status = 'discovered' WHERE status = 'processing';
ALTER TABLE redrive.runs ADD CONSTRAINT runs_status_check
    CHECK (status IN ('discovered', 'passed', 'needs_review', 'failed', 'error', 'cancelled'));

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
