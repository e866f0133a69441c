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

-- Claims behind gates read one range per customer and lane.
ALTER TABLE partition_work ADD COLUMN customer_id TEXT NOT NULL DEFAULT '';
UPDATE partition_work SET customer_id = (SELECT customer_id FROM partition_state WHERE id = partition_id);
CREATE INDEX partition_work_customers ON partition_work (source, customer_id, lane, requested_at, id)
    WHERE kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL;

-- What a sample passes gates with at its stage. Unknown until a claim behind gates finds the sample.
ALTER TABLE samples ADD COLUMN gate_key TEXT;
-- Claims behind gates read one range per key.
DROP INDEX samples_open;
CREATE INDEX samples_open ON samples (run_id, claim_stage, gate_key DESC, id)
    WHERE status = 'pending' AND next_retry_at IS NULL;

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
