-- Plans that run or are paused, for lists that must not read those that ended.
CREATE INDEX plans_live ON redrive.plans (id) WHERE status = 'running' OR status = 'paused';

-- Units of a plan that are alike, counted as they are written. The key is a hash of the other columns.
CREATE TABLE redrive.plan_counts (
    plan_id    bigint NOT NULL REFERENCES redrive.plans (id) ON DELETE CASCADE,
    key        bigint NOT NULL,
    state      text NOT NULL,
    cause      text COLLATE "C",
    refusal    text,
    outcome    text,
    new_cause  text COLLATE "C",
    -- The second in which the period of their outcomes begins.
    ended_from bigint,
    units      bigint NOT NULL,
    CONSTRAINT plan_counts_key PRIMARY KEY (plan_id, key)
) WITH (fillfactor = 50);
