-- Runs of pipelines: where the source is read, and what became of the samples.
CREATE TABLE pipeline_runs (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: leases and the journal name runs
    pipeline         TEXT NOT NULL CHECK (pipeline <> ''),
    status           TEXT NOT NULL DEFAULT 'running' CHECK (
                     status = 'running' OR status = 'completed' OR status = 'partial_success' OR
                     status = 'failed' OR status = 'aborted' OR status = 'cancelled'),
    stages           TEXT NOT NULL,                      -- their names in order, a JSON array
    rules            TEXT NOT NULL,                      -- thresholds and failure budget, as JSON
    read_ahead       INTEGER NOT NULL CHECK (read_ahead >= 1),
    source           TEXT NOT NULL,
    source_lines     INTEGER NOT NULL DEFAULT 0 CHECK (source_lines >= 0),
    source_bytes     INTEGER NOT NULL DEFAULT 0 CHECK (source_bytes >= 0),
    source_check     TEXT,
    source_done      INTEGER NOT NULL DEFAULT 0 CHECK (source_done IN (0, 1)),
    total            INTEGER NOT NULL DEFAULT 0,
    succeeded        INTEGER NOT NULL DEFAULT 0 CHECK (succeeded >= 0),
    skipped          INTEGER NOT NULL DEFAULT 0 CHECK (skipped >= 0),
    dlq              INTEGER NOT NULL DEFAULT 0 CHECK (dlq >= 0),
    budget_processed INTEGER NOT NULL DEFAULT 0 CHECK (budget_processed >= 0),
    budget_failed    INTEGER NOT NULL DEFAULT 0 CHECK (budget_failed >= 0),
    started_at       INTEGER NOT NULL,
    started_by       TEXT NOT NULL,
    ended_at         INTEGER,
    stop_reason      TEXT,
    -- Who reads the source.
    lease_owner      TEXT,
    lease_epoch      INTEGER NOT NULL DEFAULT 0 CHECK (lease_epoch >= 0),
    lease_until      INTEGER,
    CHECK (total >= succeeded + skipped + dlq),
    CHECK ((status = 'running') = (ended_at IS NULL)),
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) STRICT;

CREATE INDEX pipeline_runs_live ON pipeline_runs (pipeline, id) WHERE status = 'running';
CREATE INDEX pipeline_runs_held ON pipeline_runs (id) WHERE lease_owner IS NOT NULL;

-- Samples, each at a stage.
CREATE TABLE samples (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: the ledger names samples by it
    run_id           INTEGER NOT NULL REFERENCES pipeline_runs (id),
    line             INTEGER NOT NULL CHECK (line >= 1),
    data             TEXT,                               -- none: the line was no sample
    status           TEXT NOT NULL DEFAULT 'pending' CHECK (
                     status = 'pending' OR status = 'succeeded' OR status = 'skipped' OR
                     status = 'dlq'),
    stage            INTEGER NOT NULL DEFAULT 0 CHECK (stage >= 0),
    -- At this stage.
    attempts         INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    attempts_at_reset INTEGER NOT NULL DEFAULT 0 CHECK (attempts_at_reset >= 0),
    retry_count      INTEGER NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    deferrals        INTEGER NOT NULL DEFAULT 0 CHECK (deferrals >= 0),
    next_retry_at    INTEGER,
    first_attempt_at INTEGER,
    last_attempt_at  INTEGER,
    error_class      TEXT CHECK (
                     error_class = 'final' OR error_class = 'retryable' OR
                     error_class = 'rate_limited'),
    error_code       TEXT,
    error_message    TEXT,
    fingerprint      TEXT,
    skip_reason      TEXT,
    lease_owner      TEXT,
    lease_epoch      INTEGER NOT NULL DEFAULT 0 CHECK (lease_epoch >= 0),
    lease_until      INTEGER,
    UNIQUE (run_id, line),
    CHECK (status = 'pending' OR (lease_owner IS NULL AND next_retry_at IS NULL)),
    CHECK (lease_owner IS NULL OR next_retry_at IS NULL),
    CHECK (data IS NOT NULL OR status = 'dlq'),
    CHECK (status <> 'dlq' OR error_message IS NOT NULL),
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) STRICT;

-- Claims go by these two. What is held is among the open ones, which the read-ahead bounds: no index
-- knows leases, so a claim changes no index.
CREATE INDEX samples_open ON samples (run_id, stage, id)
    WHERE status = 'pending' AND next_retry_at IS NULL;
CREATE INDEX samples_due ON samples (run_id, stage, next_retry_at) WHERE next_retry_at IS NOT NULL;
-- Dead letters, by what they are looked for: one by one, and counted for a run.
CREATE INDEX samples_dead ON samples (id) WHERE status = 'dlq';
CREATE INDEX samples_dlq ON samples (run_id, stage) WHERE status = 'dlq';
CREATE INDEX samples_skipped ON samples (run_id, stage) WHERE status = 'skipped';

-- The ledger of samples, by the names that people know.
CREATE VIEW stages_applied AS
SELECT unit_id AS sample_id, stage AS stage_name, stage_config_hash, attempt, outcome AS status,
    message AS error_message, ended_at AS applied_at
FROM attempts WHERE kind = 'sample';

-- After a rollback the ledger still names the samples there were; their ids are not given out again.
INSERT INTO sqlite_sequence (name, seq)
SELECT 'samples', max(unit_id) FROM attempts WHERE kind = 'sample' HAVING max(unit_id) > 0;
