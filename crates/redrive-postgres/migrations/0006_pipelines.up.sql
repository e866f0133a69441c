-- Runs of pipelines: where the source is read, and what became of the samples.
CREATE TABLE redrive.pipeline_runs (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline         text COLLATE "C" NOT NULL CHECK (pipeline <> ''),
    status           text NOT NULL DEFAULT 'running' CHECK (status IN
                     ('running', 'completed', 'partial_success', 'failed', 'aborted', 'cancelled')),
    stages           text[] NOT NULL CHECK (cardinality(stages) >= 1),
    rules            text NOT NULL,             -- thresholds and failure budget, as JSON
    read_ahead       bigint NOT NULL CHECK (read_ahead >= 1),
    source           text NOT NULL,
    source_lines     bigint NOT NULL DEFAULT 0 CHECK (source_lines >= 0),
    source_bytes     bigint NOT NULL DEFAULT 0 CHECK (source_bytes >= 0),
    source_check     text,
    source_done      boolean NOT NULL DEFAULT false,
    total            bigint NOT NULL DEFAULT 0,
    succeeded        bigint NOT NULL DEFAULT 0 CHECK (succeeded >= 0),
    skipped          bigint NOT NULL DEFAULT 0 CHECK (skipped >= 0),
    dlq              bigint NOT NULL DEFAULT 0 CHECK (dlq >= 0),
    budget_processed bigint NOT NULL DEFAULT 0 CHECK (budget_processed >= 0),
    budget_failed    bigint NOT NULL DEFAULT 0 CHECK (budget_failed >= 0),
    started_at       timestamptz NOT NULL,
    started_by       text NOT NULL,
    ended_at         timestamptz,
    stop_reason      text,
    -- Who reads the source.
    lease_owner      text,
    lease_epoch      bigint NOT NULL DEFAULT 0 CHECK (lease_epoch >= 0),
    lease_until      timestamptz,
    CONSTRAINT pipeline_runs_samples_are_read CHECK (total >= succeeded + skipped + dlq),
    CONSTRAINT pipeline_runs_running_has_no_end CHECK ((status = 'running') = (ended_at IS NULL)),
    CONSTRAINT pipeline_runs_lease_is_whole CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) WITH (fillfactor = 50);

-- Every batch of ended samples changes the counts, which no index holds.
CREATE INDEX pipeline_runs_live ON redrive.pipeline_runs (pipeline, id) WHERE status = 'running';
CREATE INDEX pipeline_runs_held ON redrive.pipeline_runs (id) WHERE lease_owner IS NOT NULL;

-- Samples, each at a stage.
CREATE TABLE redrive.samples (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id           bigint NOT NULL REFERENCES redrive.pipeline_runs (id),
    line             bigint NOT NULL CHECK (line >= 1),
    data             text,                      -- none: the line was no sample
    status           text NOT NULL DEFAULT 'pending' CHECK (status IN
                     ('pending', 'succeeded', 'skipped', 'dlq')),
    stage            bigint NOT NULL DEFAULT 0 CHECK (stage >= 0),
    -- At this stage.
    attempts         bigint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    attempts_at_reset bigint NOT NULL DEFAULT 0 CHECK (attempts_at_reset >= 0),
    retry_count      bigint NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    deferrals        bigint NOT NULL DEFAULT 0 CHECK (deferrals >= 0),
    next_retry_at    timestamptz,
    first_attempt_at timestamptz,
    last_attempt_at  timestamptz,
    error_class      text CHECK (error_class IN ('final', 'retryable', 'rate_limited')),
    error_code       text,
    error_message    text,
    fingerprint      text,
    skip_reason      text,
    lease_owner      text,
    lease_epoch      bigint NOT NULL DEFAULT 0 CHECK (lease_epoch >= 0),
    lease_until      timestamptz,
    CONSTRAINT samples_line UNIQUE (run_id, line),
    CONSTRAINT samples_ended_is_free
        CHECK (status = 'pending' OR (lease_owner IS NULL AND next_retry_at IS NULL)),
    CONSTRAINT samples_held_does_not_wait CHECK (lease_owner IS NULL OR next_retry_at IS NULL),
    CONSTRAINT samples_alive_has_data CHECK (data IS NOT NULL OR status = 'dlq'),
    CONSTRAINT samples_dead_has_an_error CHECK (status <> 'dlq' OR error_message IS NOT NULL),
    CONSTRAINT samples_lease_is_whole CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) WITH (fillfactor = 70);

-- Claims go by these two. What is held is among the open ones, which the read-ahead bounds: no index
-- knows leases, so a claim changes no indexed column and touches no index.
CREATE INDEX samples_open ON redrive.samples (run_id, stage, id)
    WHERE status = 'pending' AND next_retry_at IS NULL;
CREATE INDEX samples_due ON redrive.samples (run_id, stage, next_retry_at)
    WHERE next_retry_at IS NOT NULL;
-- Dead letters, by what they are looked for: one by one, and counted for a run.
CREATE INDEX samples_dead ON redrive.samples (id) WHERE status = 'dlq';
CREATE INDEX samples_dlq ON redrive.samples (run_id, stage) WHERE status = 'dlq';
CREATE INDEX samples_skipped ON redrive.samples (run_id, stage) WHERE status = 'skipped';

-- The ledger of samples, by the names that people know.
CREATE VIEW redrive.stages_applied AS
SELECT unit_id AS sample_id, stage AS stage_name, stage_config_hash, attempt, outcome AS status,
    message AS error_message, ended_at AS applied_at
FROM redrive.attempts WHERE kind = 'sample';

-- After a rollback the ledger still names the samples there were; their ids are not given out again.
SELECT setval(pg_get_serial_sequence('redrive.samples', 'id'), max(unit_id))
FROM redrive.attempts WHERE kind = 'sample' HAVING max(unit_id) > 0;
