-- Plans that run or are paused, for lists that must not read those that ended.
CREATE INDEX plans_live ON plans (id) WHERE status = 'running' OR status = 'paused';

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
