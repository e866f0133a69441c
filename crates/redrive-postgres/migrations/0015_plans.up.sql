-- Bulk actions on frozen lists of units.
CREATE TABLE redrive.plans (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action         text NOT NULL,
    options        text NOT NULL,
    selection      text NOT NULL,                -- of its units, as JSON
    settings       text NOT NULL DEFAULT '{}',   -- canary, pace, ramp and abort condition, as JSON
    status         text NOT NULL DEFAULT 'draft' CHECK (status IN
                   ('draft', 'running', 'paused', 'done', 'aborted', 'undone')),
    created_at     timestamptz NOT NULL,
    created_by     text NOT NULL,
    reason         text,
    -- Who applied, resumed or undid the plan last.
    ordered_by     text,
    ordered_reason text,
    -- When the list of units was complete.
    frozen_at      timestamptz,
    started_at     timestamptz,
    ended_at       timestamptz,
    stop_reason    text,
    total          bigint NOT NULL DEFAULT 0,
    changed        bigint NOT NULL DEFAULT 0 CHECK (changed >= 0),
    skipped        bigint NOT NULL DEFAULT 0 CHECK (skipped >= 0),
    -- Of the changed units: not ended yet, and how the others ended.
    pending        bigint NOT NULL DEFAULT 0 CHECK (pending >= 0),
    recovered      bigint NOT NULL DEFAULT 0 CHECK (recovered >= 0),
    same_cause     bigint NOT NULL DEFAULT 0 CHECK (same_cause >= 0),
    other_cause    bigint NOT NULL DEFAULT 0 CHECK (other_cause >= 0),
    superseded     bigint NOT NULL DEFAULT 0 CHECK (superseded >= 0),
    undone         bigint NOT NULL DEFAULT 0 CHECK (undone >= 0),
    -- The last unit that was changed or skipped, and how far an undo has come.
    last_unit      bigint NOT NULL DEFAULT 0,
    undo_unit      bigint,
    -- On the server's clock.
    ramp_from      timestamptz,
    next_at        timestamptz,
    -- The lease of the executor.
    lease_owner    text,
    lease_epoch    bigint NOT NULL DEFAULT 0 CHECK (lease_epoch >= 0),
    lease_until    timestamptz,
    CONSTRAINT plans_units_are_listed CHECK (total >= changed + skipped),
    CONSTRAINT plans_outcomes_are_of_changed
        CHECK (changed >= pending + recovered + same_cause + other_cause + superseded + undone),
    CONSTRAINT plans_applied_is_frozen CHECK (status IN ('draft', 'aborted') OR frozen_at IS NOT NULL),
    CONSTRAINT plans_lease_is_whole CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) WITH (fillfactor = 50);

-- Plans that have work for an executor.
CREATE INDEX plans_open ON redrive.plans (id) WHERE status = 'running' OR pending > 0;

-- The units of plans: how they were when the list was frozen, and what became of them.
CREATE TABLE redrive.plan_units (
    plan_id    bigint NOT NULL REFERENCES redrive.plans (id),
    unit_id    bigint NOT NULL,
    state      text NOT NULL,
    version    bigint NOT NULL,
    cause      text COLLATE "C",
    -- Why the unit was not expected to be changed.
    refusal    text,
    outcome    text CHECK (outcome IN (
               'skipped', 'applied', 'pending', 'recovered', 'same_cause', 'other_cause', 'superseded', 'undone')),
    reason     text,
    outcome_at timestamptz,
    -- The cause of a new failure.
    new_cause  text COLLATE "C",
    -- What an undo returns, as JSON.
    undo       text,
    CONSTRAINT plan_units_key PRIMARY KEY (plan_id, unit_id),
    CONSTRAINT plan_units_outcome_is_whole CHECK ((outcome IS NULL) = (outcome_at IS NULL))
);

CREATE INDEX plan_units_pending ON redrive.plan_units (plan_id, unit_id) WHERE outcome = 'pending';
