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
-- What is held, so that looking for ended leases does not read what is only asked for.
CREATE INDEX partition_work_held ON partition_work (id) WHERE lease_owner IS NOT NULL;

-- After a rollback the ledger still names the partitions there were; their ids are not given out again.
INSERT INTO sqlite_sequence (name, seq)
SELECT 'partition_state', max(unit_id) FROM attempts WHERE kind = 'partition' HAVING max(unit_id) > 0;
