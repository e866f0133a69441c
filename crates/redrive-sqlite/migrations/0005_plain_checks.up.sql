-- The same checks in other words. For every row, SQLite makes a table of a list of more than two values before
-- it looks for the value in it, which took longer than writing the row.

ALTER TABLE items RENAME TO items_before;

CREATE TABLE items (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    upload           TEXT NOT NULL,
    group_name       TEXT NOT NULL,
    name             TEXT NOT NULL,
    content_url      TEXT NOT NULL,
    size_bytes       INTEGER NOT NULL CHECK (size_bytes >= 0),
    sha256           TEXT NOT NULL,
    status           TEXT NOT NULL DEFAULT 'pending' CHECK (
                      status = 'pending' OR status = 'uploaded' OR status = 'trusted' OR
                      status = 'rejected' OR status = 'upload_giveup'),
    rejection_reason TEXT,
    updated_at       INTEGER NOT NULL,
    upload_attempts  INTEGER NOT NULL DEFAULT 0,
    attempts_at_reset INTEGER NOT NULL DEFAULT 0,
    last_attempt INTEGER NOT NULL DEFAULT 0 CHECK (last_attempt >= 0),
    UNIQUE (upload, group_name, name)
) STRICT;

INSERT INTO items (
    id, upload, group_name, name, content_url, size_bytes, sha256, status, rejection_reason, updated_at,
    upload_attempts, attempts_at_reset, last_attempt
)
SELECT
    id, upload, group_name, name, content_url, size_bytes, sha256, status, rejection_reason, updated_at,
    upload_attempts, attempts_at_reset, last_attempt
FROM items_before ORDER BY id;

-- Ids are never given out twice, also if the last ones are gone.
DELETE FROM sqlite_sequence WHERE name = 'items';
INSERT INTO sqlite_sequence (name, seq)
SELECT 'items', seq FROM sqlite_sequence WHERE name = 'items_before';
DROP TABLE items_before;

CREATE INDEX items_pending ON items (upload, group_name, id) WHERE status = 'pending';

ALTER TABLE attempts RENAME TO attempts_before;

CREATE TABLE attempts (
    id                INTEGER PRIMARY KEY CHECK (id > 0),
    kind              TEXT NOT NULL CHECK (
                      kind = 'partition' OR kind = 'run' OR kind = 'item' OR kind = 'sample'),
    unit_id           INTEGER NOT NULL,
    stage             TEXT NOT NULL DEFAULT '',
    stage_config_hash TEXT,
    attempt           INTEGER NOT NULL CHECK (attempt >= 1),
    counted           INTEGER NOT NULL CHECK (counted IN (0, 1)),
    run_id            TEXT,
    started_at        INTEGER NOT NULL,
    ended_at          INTEGER NOT NULL,
    outcome           TEXT NOT NULL CHECK (
                      outcome = 'success' OR outcome = 'retrying' OR outcome = 'failed' OR
                      outcome = 'skipped'),
    class             TEXT CHECK (class = 'final' OR class = 'retryable' OR class = 'rate_limited'),
    code              TEXT,
    message           TEXT,
    fingerprint       TEXT,
    cause             TEXT CHECK (
                      cause = 'handler' OR cause = 'validator' OR cause = 'timeout' OR
                      cause = 'lost_worker' OR cause = 'shutdown' OR cause = 'spawn'),
    delay_us          INTEGER CHECK (delay_us >= 0),
    worker            TEXT NOT NULL,
    UNIQUE (kind, unit_id, stage, attempt)
) STRICT;

INSERT INTO attempts (
    id, kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
    class, code, message, fingerprint, cause, delay_us, worker
)
SELECT
    id, kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
    class, code, message, fingerprint, cause, delay_us, worker
FROM attempts_before ORDER BY id;
DROP TABLE attempts_before;

-- A replacing insert would delete without telling the other trigger.
CREATE TRIGGER attempts_no_replace BEFORE INSERT ON attempts
WHEN EXISTS (SELECT 1 FROM attempts WHERE id = NEW.id)
    OR EXISTS (
        SELECT 1 FROM attempts
        WHERE unit_id = NEW.unit_id AND kind = NEW.kind AND stage = NEW.stage
            AND attempt = NEW.attempt
    )
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER attempts_no_update BEFORE UPDATE ON attempts
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER attempts_no_delete BEFORE DELETE ON attempts
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

ALTER TABLE runs RENAME TO runs_before;

CREATE TABLE runs (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: the journal names runs
    queue            TEXT NOT NULL,
    category         TEXT NOT NULL DEFAULT '',
    payload          TEXT NOT NULL,
    submitted_at     INTEGER NOT NULL,
    not_before       INTEGER,
    idempotency_key  TEXT,
    status           TEXT NOT NULL DEFAULT 'discovered' CHECK (
                     status = 'discovered' OR status = 'processing' OR status = 'passed' OR
                     status = 'needs_review' OR status = 'failed' OR status = 'error' OR
                     status = 'cancelled'),
    attempts         INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- How many there were when the count last began anew: a retry asked for by hand does that.
    attempts_at_reset INTEGER NOT NULL DEFAULT 0 CHECK (attempts_at_reset >= 0),
    retry_count      INTEGER NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    deferrals        INTEGER NOT NULL DEFAULT 0 CHECK (deferrals >= 0),
    next_retry_at    INTEGER,
    first_attempt_at INTEGER,
    error_class      TEXT CHECK (
                     error_class = 'final' OR error_class = 'retryable' OR
                     error_class = 'rate_limited'),
    error_message    TEXT,
    result           TEXT,
    -- A claim takes what is ready. What waits for a retry or its start has a due_at instead.
    ready            INTEGER NOT NULL CHECK (ready IN (0, 1)),
    due_at           INTEGER,
    lease_owner      TEXT,
    lease_epoch      INTEGER NOT NULL DEFAULT 0,
    lease_until      INTEGER,
    CHECK (ready = 0 OR due_at IS NULL),
    CHECK (ready = 0 OR status IN ('discovered', 'error')),
    CHECK ((status = 'processing') = (lease_owner IS NOT NULL)),
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) STRICT;

INSERT INTO runs (
    id, queue, category, payload, submitted_at, not_before, idempotency_key, status, attempts,
    attempts_at_reset, retry_count, deferrals, next_retry_at, first_attempt_at, error_class,
    error_message, result, ready, due_at, lease_owner, lease_epoch, lease_until
)
SELECT
    id, queue, category, payload, submitted_at, not_before, idempotency_key, status, attempts,
    attempts_at_reset, retry_count, deferrals, next_retry_at, first_attempt_at, error_class,
    error_message, result, ready, due_at, lease_owner, lease_epoch, lease_until
FROM runs_before ORDER BY id;

DELETE FROM sqlite_sequence WHERE name = 'runs';
INSERT INTO sqlite_sequence (name, seq)
SELECT 'runs', seq FROM sqlite_sequence WHERE name = 'runs_before';
DROP TABLE runs_before;

-- Claims go by it, one range per category.
CREATE INDEX runs_ready ON runs (queue, category, submitted_at, id) WHERE ready = 1;
-- What is due becomes ready by it.
CREATE INDEX runs_due ON runs (queue, due_at) WHERE due_at IS NOT NULL;
-- What is held, so that looking for ended leases does not read what was ever submitted.
CREATE INDEX runs_held ON runs (id) WHERE status = 'processing';
CREATE UNIQUE INDEX runs_idempotency ON runs (queue, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
