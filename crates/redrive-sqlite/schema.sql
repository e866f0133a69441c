-- The whole schema, as the migrations leave it, to be read in one place. A test keeps it equal to
-- what they make; it is never executed otherwise.
--
-- Where rows are written often, a check has no list of more than two values: SQLite would make a table of it for
-- every row.
--
-- Times are microseconds since 1970 in UTC. Lease ends are on the lease clock, not the wall clock.

-- Which migrations the database has.
CREATE TABLE schema_migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

-- Runs in queues.
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
    claimed_at       INTEGER,
    error_code       TEXT,
    -- The cause of the last failure.
    fingerprint      TEXT,
    last_failure_at  INTEGER,
    CHECK (ready = 0 OR due_at IS NULL),
    CHECK (ready = 0 OR status IN ('discovered', 'error')),
    CHECK ((status = 'processing') = (lease_owner IS NOT NULL)),
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) STRICT;

-- Claims go by it, one range per category.
CREATE INDEX runs_ready ON runs (queue, category, submitted_at, id) WHERE ready = 1;
-- What is due becomes ready by it.
CREATE INDEX runs_due ON runs (queue, due_at) WHERE due_at IS NOT NULL;
-- What is held, so that looking for ended leases does not read what was ever submitted.
CREATE INDEX runs_held ON runs (id) WHERE status = 'processing';
-- Runs by their cause: those that wait or are stuck.
CREATE INDEX runs_cause ON runs (fingerprint, id, next_retry_at, status) WHERE status = 'error';
CREATE UNIQUE INDEX runs_idempotency ON runs (queue, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

-- A queue that is in it gives nothing to a claim.
CREATE TABLE paused_queues (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    queue     TEXT NOT NULL UNIQUE,
    paused_at INTEGER NOT NULL,
    paused_by TEXT NOT NULL,
    reason    TEXT
) STRICT;

-- What uploads send.
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
    -- Rejections so far, which only ever grow, and what their count was when an operator last reset
    -- the item.
    upload_attempts  INTEGER NOT NULL DEFAULT 0,
    attempts_at_reset INTEGER NOT NULL DEFAULT 0,
    -- The number of its last attempt in the ledger.
    last_attempt INTEGER NOT NULL DEFAULT 0 CHECK (last_attempt >= 0),
    error_class      TEXT,
    error_code       TEXT,
    fingerprint      TEXT,
    last_failure_at  INTEGER,
    UNIQUE (upload, group_name, name)
) STRICT;

CREATE INDEX items_pending ON items (upload, group_name, id) WHERE status = 'pending';
CREATE INDEX items_cause ON items (fingerprint, id, status) WHERE fingerprint IS NOT NULL;
CREATE INDEX items_open ON items (id) WHERE fingerprint IS NOT NULL;

-- Who is uploading a group of items. A row is made by the first upload of its group.
CREATE TABLE upload_groups (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: leases name rows by it
    upload      TEXT NOT NULL,
    group_name  TEXT NOT NULL,
    lease_owner TEXT,
    lease_epoch INTEGER NOT NULL DEFAULT 0 CHECK (lease_epoch >= 0),
    lease_until INTEGER,
    UNIQUE (upload, group_name),
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) STRICT;

-- What is held, so that looking for ended leases does not read every group there ever was.
CREATE INDEX upload_groups_held ON upload_groups (id) WHERE lease_owner IS NOT NULL;

-- What partitions are. Days are written YYYY-MM-DD, so that they sort as text.
CREATE TABLE partition_state (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: the ledger names partitions by it
    source         TEXT NOT NULL CHECK (source <> ''),
    customer_id    TEXT NOT NULL CHECK (customer_id <> ''),
    query_name     TEXT NOT NULL CHECK (query_name <> ''),
    logical_date   TEXT NOT NULL CHECK (
                   logical_date GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9]'),
    status         TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'success', 'failed')),
    current_run_id TEXT,
    schema_version TEXT,
    record_count   INTEGER CHECK (record_count >= 0),
    attempt_count  INTEGER NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
    error_message  TEXT,
    updated_at     INTEGER NOT NULL,
    UNIQUE (source, customer_id, query_name, logical_date),
    CHECK (status <> 'success' OR (current_run_id IS NOT NULL AND record_count IS NOT NULL)),
    CHECK (status = 'pending' OR attempt_count >= 1)
) STRICT;

-- The daemon looks at these alone, in the order of the keys.
CREATE INDEX partition_state_failed
    ON partition_state (source, customer_id, query_name, logical_date) WHERE status = 'failed';

-- The last failure of a partition. The columns of partition_state are fixed.
CREATE TABLE partition_failures (
    partition_id INTEGER PRIMARY KEY REFERENCES partition_state (id),
    class        TEXT NOT NULL,
    code         TEXT NOT NULL,
    fingerprint  TEXT NOT NULL,
    failed_at    INTEGER NOT NULL
) STRICT;

CREATE INDEX partition_failures_cause ON partition_failures (fingerprint, partition_id);

-- What is asked for and who holds it. A row lives while something is outstanding or the partition is
-- paused; every request that is done with takes its row along.
CREATE TABLE partition_work (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: leases name rows by it
    partition_id INTEGER NOT NULL UNIQUE REFERENCES partition_state (id),
    source       TEXT NOT NULL,
    kind         TEXT CHECK (kind IN ('first', 'retry', 'reprocess')),
    lane         TEXT CHECK (lane IN ('fresh', 'backfill')),
    requested_at INTEGER,
    requested_by TEXT,
    run_id       TEXT,
    lease_owner  TEXT,
    lease_epoch  INTEGER NOT NULL DEFAULT 0 CHECK (lease_epoch >= 0),
    lease_until  INTEGER,
    paused_at    INTEGER,
    paused_by    TEXT,
    pause_reason TEXT,
    customer_id  TEXT NOT NULL DEFAULT '',
    CHECK ((kind IS NULL) = (lane IS NULL)),
    CHECK ((kind IS NULL) = (requested_at IS NULL)),
    CHECK ((kind IS NULL) = (requested_by IS NULL)),
    CHECK ((paused_at IS NULL) = (paused_by IS NULL)),
    CHECK (kind IS NOT NULL OR paused_at IS NOT NULL),
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL)),
    CHECK ((lease_owner IS NULL) = (run_id IS NULL)),
    CHECK (kind IS NOT NULL OR lease_owner IS NULL)
) STRICT;

-- Claims go by it, one range per lane.
CREATE INDEX partition_work_ready ON partition_work (source, lane, requested_at, id)
    WHERE kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL;
-- Claims behind gates read one range per customer and lane.
CREATE INDEX partition_work_customers ON partition_work (source, customer_id, lane, requested_at, id)
    WHERE kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL;
-- What is held, so that looking for ended leases does not read what is only asked for.
CREATE INDEX partition_work_held ON partition_work (id) WHERE lease_owner IS NOT NULL;

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
    -- Samples that are gone; the counts above still have them.
    pruned_succeeded INTEGER NOT NULL DEFAULT 0 CHECK (pruned_succeeded BETWEEN 0 AND succeeded),
    pruned_skipped INTEGER NOT NULL DEFAULT 0 CHECK (pruned_skipped BETWEEN 0 AND skipped),
    pruned_dlq INTEGER NOT NULL DEFAULT 0 CHECK (pruned_dlq BETWEEN 0 AND dlq),
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
    -- Where claims look for it: its stage, or while it is held the one where it was claimed.
    claim_stage      INTEGER NOT NULL DEFAULT 0,
    claimed_at       INTEGER,
    -- What the line of the source was.
    line_hash        INTEGER,
    last_failure_at  INTEGER,
    -- What the sample passes gates with at its stage. Unknown until a claim behind gates finds the sample.
    gate_key         TEXT,
    UNIQUE (run_id, line),
    CHECK (status = 'pending' OR (lease_owner IS NULL AND next_retry_at IS NULL)),
    CHECK (lease_owner IS NULL OR next_retry_at IS NULL),
    CHECK (data IS NOT NULL OR status = 'dlq'),
    CHECK (status <> 'dlq' OR error_message IS NOT NULL),
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) STRICT;

-- Claims go by these two. What is held is among the open ones, which the read-ahead bounds: no index
-- knows leases, nor the stage of what is held, so neither a claim nor going on to the next stage with who
-- holds it changes an index.
CREATE INDEX samples_open ON samples (run_id, claim_stage, gate_key DESC, id)
    WHERE status = 'pending' AND next_retry_at IS NULL;
CREATE INDEX samples_due ON samples (run_id, claim_stage, next_retry_at)
    WHERE next_retry_at IS NOT NULL;
-- Dead letters, by what they are looked for: one by one, and counted for a run.
CREATE INDEX samples_dead ON samples (id) WHERE status = 'dlq';
CREATE INDEX samples_dlq ON samples (run_id) WHERE status = 'dlq';
CREATE INDEX samples_skipped ON samples (run_id) WHERE status = 'skipped';
CREATE INDEX samples_cause ON samples (fingerprint, id, status, next_retry_at, run_id) WHERE fingerprint IS NOT NULL;

-- The ledger: one row per execution, written when it ends.
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
    -- The wait that the server asked for.
    asked_us          INTEGER CHECK (asked_us >= 0),
    UNIQUE (kind, unit_id, stage, attempt)
) STRICT;

-- A replacing insert would delete without telling the other trigger. FAIL: to take back a statement, SQLite would
-- copy what it changes.
CREATE TRIGGER attempts_no_replace BEFORE INSERT ON attempts
WHEN EXISTS (SELECT 1 FROM attempts WHERE id = NEW.id)
    OR EXISTS (
        SELECT 1 FROM attempts
        WHERE unit_id = NEW.unit_id AND kind = NEW.kind AND stage = NEW.stage
            AND attempt = NEW.attempt
    )
BEGIN SELECT RAISE(FAIL, 'the ledger is append-only'); END;
CREATE TRIGGER attempts_no_update BEFORE UPDATE ON attempts
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
-- Rows of runs and samples may go while pruning names the entry of the journal that tells of it.
CREATE TRIGGER attempts_no_delete BEFORE DELETE ON attempts
WHEN OLD.kind NOT IN ('run', 'sample') OR NOT EXISTS (
    SELECT 1 FROM pruning JOIN journal ON journal.dedupe_key = pruning.journal_key
    WHERE journal.action = 'prune.start'
)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- The ledger of samples, by the names that people know.
CREATE VIEW stages_applied AS
SELECT unit_id AS sample_id, stage AS stage_name, stage_config_hash, attempt, outcome AS status,
    message AS error_message, ended_at AS applied_at
FROM attempts WHERE kind = 'sample';

-- What failures have in common: class, code and normalised message. One of their messages, and what operators know.
CREATE TABLE causes (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    fingerprint TEXT NOT NULL UNIQUE,
    class       TEXT NOT NULL,
    code        TEXT NOT NULL,
    message     TEXT NOT NULL,
    first_at    INTEGER NOT NULL,
    mark        TEXT CHECK (mark = 'known' OR mark = 'fixed'),
    note        TEXT,
    ticket      TEXT,
    marked_at   INTEGER,
    marked_by   TEXT,
    -- When the cause came back after it was marked as fixed.
    returned_at INTEGER,
    CHECK ((mark IS NULL) = (marked_at IS NULL)),
    CHECK ((mark IS NULL) = (marked_by IS NULL)),
    CHECK (returned_at IS NULL OR mark = 'fixed')
) STRICT;

-- Failed attempts by cause, hour, kind and place: a queue, a source, an upload, or a pipeline with a stage.
CREATE TABLE cause_hours (
    hour        INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    kind        TEXT NOT NULL,
    place       TEXT NOT NULL,
    attempts    INTEGER NOT NULL CHECK (attempts >= 1),
    last_at     INTEGER NOT NULL,
    -- The unit of the last failure.
    unit_id     INTEGER NOT NULL,
    PRIMARY KEY (hour, fingerprint, kind, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX cause_hours_cause ON cause_hours (fingerprint, hour);

-- The processes that work on units, each with a lease; times are on the lease clock.
CREATE TABLE workers (
    id          TEXT PRIMARY KEY,
    host        TEXT NOT NULL,
    process     INTEGER NOT NULL,
    version     TEXT NOT NULL,
    started_at  INTEGER NOT NULL,
    heard_at    INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    draining    INTEGER NOT NULL CHECK (draining IN (0, 1)),
    -- What the process serves and holds: JSON.
    places      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Attempts by period, place and outcome, added up by the processes that made them. A period is a minute, ten minutes or an
-- hour. The place is a queue, a source, an upload, a pipeline, a pipeline with a stage, or empty for all places of the kind.
CREATE TABLE attempt_counts (
    seconds    INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    place      TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    outcome    TEXT NOT NULL,
    attempts   INTEGER NOT NULL CHECK (attempts >= 1),
    -- The sum of the durations, in microseconds.
    took       INTEGER NOT NULL CHECK (took >= 0),
    PRIMARY KEY (seconds, kind, place, started_at, outcome)
) STRICT, WITHOUT ROWID;

CREATE INDEX attempt_counts_age ON attempt_counts (seconds, started_at);

-- Bulk actions on frozen lists of units.
CREATE TABLE plans (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: the journal names plans
    action         TEXT NOT NULL,
    options        TEXT NOT NULL,
    selection      TEXT NOT NULL,                      -- of its units, as JSON
    settings       TEXT NOT NULL DEFAULT '{}',         -- canary, pace, ramp and abort condition, as JSON
    status         TEXT NOT NULL DEFAULT 'draft' CHECK (
                   status = 'draft' OR status = 'running' OR status = 'paused' OR status = 'done' OR
                   status = 'aborted' OR status = 'undone'),
    created_at     INTEGER NOT NULL,
    created_by     TEXT NOT NULL,
    reason         TEXT,
    -- Who applied, resumed or undid the plan last.
    ordered_by     TEXT,
    ordered_reason TEXT,
    -- When the list of units was complete.
    frozen_at      INTEGER,
    started_at     INTEGER,
    ended_at       INTEGER,
    stop_reason    TEXT,
    total          INTEGER NOT NULL DEFAULT 0,
    changed        INTEGER NOT NULL DEFAULT 0 CHECK (changed >= 0),
    skipped        INTEGER NOT NULL DEFAULT 0 CHECK (skipped >= 0),
    -- Of the changed units: not ended yet, and how the others ended.
    pending        INTEGER NOT NULL DEFAULT 0 CHECK (pending >= 0),
    recovered      INTEGER NOT NULL DEFAULT 0 CHECK (recovered >= 0),
    same_cause     INTEGER NOT NULL DEFAULT 0 CHECK (same_cause >= 0),
    other_cause    INTEGER NOT NULL DEFAULT 0 CHECK (other_cause >= 0),
    superseded     INTEGER NOT NULL DEFAULT 0 CHECK (superseded >= 0),
    undone         INTEGER NOT NULL DEFAULT 0 CHECK (undone >= 0),
    -- The last unit that was changed or skipped, and how far an undo has come.
    last_unit      INTEGER NOT NULL DEFAULT 0,
    undo_unit      INTEGER,
    -- On the lease clock.
    ramp_from      INTEGER,
    next_at        INTEGER,
    -- Who executes the plan.
    lease_owner    TEXT,
    lease_epoch    INTEGER NOT NULL DEFAULT 0 CHECK (lease_epoch >= 0),
    lease_until    INTEGER,
    CHECK (total >= changed + skipped),
    CHECK (changed >= pending + recovered + same_cause + other_cause + superseded + undone),
    CHECK (status = 'draft' OR status = 'aborted' OR frozen_at IS NOT NULL),
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) STRICT;

-- Plans that have work for an executor.
CREATE INDEX plans_open ON plans (id) WHERE status = 'running' OR pending > 0;
CREATE INDEX plans_live ON plans (id) WHERE status = 'running' OR status = 'paused';

-- The units of plans: how they were when the list was frozen, and what became of them.
CREATE TABLE plan_units (
    plan_id    INTEGER NOT NULL REFERENCES plans (id),
    unit_id    INTEGER NOT NULL,
    state      TEXT NOT NULL,
    version    INTEGER NOT NULL,
    cause      TEXT,
    -- Why the unit was not expected to be changed.
    refusal    TEXT,
    outcome    TEXT CHECK (
               outcome = 'skipped' OR outcome = 'applied' OR outcome = 'pending' OR outcome = 'recovered' OR
               outcome = 'same_cause' OR outcome = 'other_cause' OR outcome = 'superseded' OR outcome = 'undone'),
    reason     TEXT,
    outcome_at INTEGER,
    -- The cause of a new failure.
    new_cause  TEXT,
    -- What an undo returns, as JSON.
    undo       TEXT,
    PRIMARY KEY (plan_id, unit_id),
    CHECK ((outcome IS NULL) = (outcome_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX plan_units_pending ON plan_units (plan_id, unit_id) WHERE outcome = 'pending';

-- Units of a plan that are alike, counted as they are written. The key is a hash of the other columns.
CREATE TABLE plan_counts (
    plan_id    INTEGER NOT NULL REFERENCES plans (id) ON DELETE CASCADE,
    key        INTEGER NOT NULL,
    state      TEXT NOT NULL,
    cause      TEXT,
    refusal    TEXT,
    outcome    TEXT,
    new_cause  TEXT,
    -- The second in which the period of their outcomes begins.
    ended_from INTEGER,
    units      INTEGER NOT NULL,
    PRIMARY KEY (plan_id, key)
) STRICT, WITHOUT ROWID;

-- Gates as configurations declare them.
CREATE TABLE gates (
    name         TEXT PRIMARY KEY,
    per          TEXT,
    key          TEXT,           -- where the data of a sample has its key: a JSON pointer
    limits       TEXT,           -- what it lets through while it is open, in words
    places       TEXT NOT NULL  -- whose units pass the gate, as JSON
) STRICT, WITHOUT ROWID;

-- What a gate lets through, for each of its keys; the key of a gate that is not divided is empty.
CREATE TABLE gate_keys (
    gate         TEXT NOT NULL REFERENCES gates (name),
    key          TEXT NOT NULL,
    status       TEXT NOT NULL DEFAULT 'open' CHECK (
                 status = 'open' OR status = 'closed' OR status = 'probing' OR status = 'ramping'),
    -- Whether there are failures that a success may push out.
    has_failures INTEGER NOT NULL DEFAULT 0 CHECK (has_failures BETWEEN 0 AND 1),
    state        TEXT NOT NULL,  -- JSON
    PRIMARY KEY (gate, key)
) STRICT, WITHOUT ROWID;

-- Keys that a claim must not treat as open.
CREATE INDEX gate_keys_shut ON gate_keys (gate, key) WHERE status <> 'open';

-- Units that count for a gate until their leases end: those of gates that are not open, or limit how many run at once.
CREATE TABLE gate_permits (
    kind         TEXT NOT NULL CHECK (
                 kind = 'partition' OR kind = 'run' OR kind = 'item' OR kind = 'sample'),
    unit_id      INTEGER NOT NULL,
    gate         TEXT NOT NULL,
    key          TEXT NOT NULL,
    lease_epoch  INTEGER NOT NULL,
    gate_epoch   INTEGER NOT NULL,
    PRIMARY KEY (kind, unit_id, gate)
) STRICT, WITHOUT ROWID;

CREATE INDEX gate_permits_gate ON gate_permits (gate, key);

-- Events and operator actions, in the order they were written.
CREATE TABLE journal (
    id         INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id > 0),
    at         INTEGER NOT NULL,
    actor      TEXT NOT NULL,
    action     TEXT NOT NULL,
    unit       TEXT,
    filter     TEXT,
    details    TEXT NOT NULL DEFAULT '{}',
    dedupe_key TEXT UNIQUE
) STRICT;

CREATE INDEX journal_unit ON journal (unit, id) WHERE unit IS NOT NULL;

-- An entry with a known key is ignored, however it is inserted; no entry takes another's place.
CREATE TRIGGER journal_no_replace BEFORE INSERT ON journal
BEGIN
    SELECT RAISE(IGNORE) FROM journal WHERE dedupe_key = NEW.dedupe_key;
    SELECT RAISE(ABORT, 'the journal is append-only') FROM journal WHERE id = NEW.id;
END;
CREATE TRIGGER journal_no_update BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER journal_no_delete BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;

-- Who reads the journal on and on, and how far.
CREATE TABLE journal_readers (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    name    TEXT NOT NULL UNIQUE,
    settled INTEGER NOT NULL CHECK (settled >= 0),
    seen    INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    CHECK (seen >= settled)
) STRICT;

-- Filled and emptied in one transaction by who removes rows of the ledger. SQLite alone needs it;
-- PostgreSQL has settings of a transaction.
CREATE TABLE pruning (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    journal_key TEXT NOT NULL REFERENCES journal (dedupe_key)
) STRICT;

-- Where the lease clock stands: the wall time at an instant of this boot. SQLite alone needs it;
-- PostgreSQL's server has a clock of its own.
CREATE TABLE lease_clock (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    boot_id    TEXT NOT NULL,
    wall_at    INTEGER NOT NULL,
    since_boot INTEGER NOT NULL
) STRICT;

-- The permits of units that are held under the lease that they had.
CREATE VIEW live_permits AS
SELECT * FROM gate_permits AS permit
WHERE CASE permit.kind
    WHEN 'run' THEN EXISTS (
        SELECT 1 FROM runs
        WHERE runs.id = permit.unit_id AND runs.lease_epoch = permit.lease_epoch AND lease_owner IS NOT NULL
    )
    WHEN 'partition' THEN EXISTS (
        SELECT 1 FROM partition_work AS work
        WHERE work.id = permit.unit_id AND work.lease_epoch = permit.lease_epoch AND lease_owner IS NOT NULL
    )
    WHEN 'sample' THEN EXISTS (
        SELECT 1 FROM samples
        WHERE samples.id = permit.unit_id AND samples.lease_epoch = permit.lease_epoch AND lease_owner IS NOT NULL
    )
    WHEN 'item' THEN EXISTS (
        SELECT 1 FROM items JOIN upload_groups AS sent
            ON sent.upload = items.upload AND sent.group_name = items.group_name
        WHERE items.id = permit.unit_id AND sent.lease_epoch = permit.lease_epoch AND lease_owner IS NOT NULL
    )
    ELSE false
END;

-- The states of gates and keys, with the units that have permits: all of them, and those that were let through since the gate
-- last closed or opened.
CREATE VIEW gate_states AS
SELECT gate, key, status, state, (
    SELECT count(*) FROM live_permits AS permit
    WHERE permit.gate = gate_keys.gate AND permit.key = gate_keys.key
) AS held, (
    SELECT count(*) FROM live_permits AS permit
    WHERE permit.gate = gate_keys.gate AND permit.key = gate_keys.key AND permit.gate_epoch = gate_keys.state ->> '$.epoch'
) AS held_now
FROM gate_keys;

-- What handlers logged during attempts. A log may be there before its attempt is in the ledger: it is written while the attempt
-- runs. A repeated attempt of the same number has a later epoch.
CREATE TABLE attempt_logs (
    id         INTEGER PRIMARY KEY,
    kind       TEXT NOT NULL,
    unit_id    INTEGER NOT NULL,
    stage      TEXT NOT NULL,
    attempt    INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    worker     TEXT NOT NULL,
    printed    INTEGER NOT NULL,  -- bytes, before anything was left out
    written_at INTEGER NOT NULL,
    log        TEXT NOT NULL,
    UNIQUE (unit_id, kind, stage, attempt)
) STRICT;
