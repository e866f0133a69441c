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
