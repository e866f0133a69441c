-- Gates as configurations declare them. Whoever changes the rows of a gate locks its row here first.
CREATE TABLE redrive.gates (
    name        text COLLATE "C" PRIMARY KEY,
    per         text,
    key         text,           -- where the data of a sample has its key: a JSON pointer
    limits      text,           -- what it lets through while it is open, in words
    places      text NOT NULL  -- whose units pass the gate, as JSON
);

-- What a gate lets through, for each of its keys; the key of a gate that is not divided is empty.
CREATE TABLE redrive.gate_keys (
    gate        text COLLATE "C" NOT NULL REFERENCES redrive.gates (name),
    key         text COLLATE "C" NOT NULL,
    status      text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'closed', 'probing', 'ramping')),
    -- Whether there are failures that a success may push out.
    has_failures boolean NOT NULL DEFAULT false,
    state       text NOT NULL,  -- JSON
    CONSTRAINT gate_keys_key PRIMARY KEY (gate, key)
) WITH (fillfactor = 50);

-- Keys that a claim must not treat as open.
CREATE INDEX gate_keys_shut ON redrive.gate_keys (gate, key) WHERE status <> 'open';

-- Units that count for a gate until their leases end: those of gates that are not open, or limit how many run at once.
CREATE TABLE redrive.gate_permits (
    kind        text COLLATE "C" NOT NULL CHECK (kind IN ('partition', 'run', 'item', 'sample')),
    unit_id     bigint NOT NULL,
    gate        text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    lease_epoch bigint NOT NULL,
    gate_epoch  bigint NOT NULL,
    CONSTRAINT gate_permits_key PRIMARY KEY (kind, unit_id, gate)
);

CREATE INDEX gate_permits_gate ON redrive.gate_permits (gate, key);

-- Claims behind gates read one range per customer and lane.
ALTER TABLE redrive.partition_work ADD COLUMN customer_id text COLLATE "C" NOT NULL DEFAULT '';
UPDATE redrive.partition_work AS work SET customer_id = state.customer_id
FROM redrive.partition_state AS state WHERE state.id = work.partition_id;
CREATE INDEX partition_work_customers ON redrive.partition_work (source, customer_id, lane, requested_at, id)
    WHERE kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL;

-- What a sample passes gates with at its stage. Unknown until a claim behind gates finds the sample.
ALTER TABLE redrive.samples ADD COLUMN gate_key text COLLATE "C";
-- Claims behind gates read one range per key.
DROP INDEX redrive.samples_open;
CREATE INDEX samples_open ON redrive.samples (run_id, claim_stage, gate_key, id)
    WHERE status = 'pending' AND next_retry_at IS NULL;

-- The permits of units that are held under the lease that they had.
CREATE VIEW redrive.live_permits AS
SELECT * FROM redrive.gate_permits AS permit
WHERE CASE kind
    WHEN 'run' THEN EXISTS (
        SELECT FROM redrive.run_claims AS claim
        WHERE claim.epoch = permit.lease_epoch AND permit.unit_id = ANY (claim.run_ids)
    )
    WHEN 'partition' THEN EXISTS (
        SELECT FROM redrive.partition_work AS work
        WHERE work.id = permit.unit_id AND work.lease_epoch = permit.lease_epoch AND lease_owner IS NOT NULL
    )
    WHEN 'sample' THEN EXISTS (
        SELECT FROM redrive.samples AS sample
        WHERE sample.id = permit.unit_id AND sample.lease_epoch = permit.lease_epoch
            AND lease_owner IS NOT NULL
    )
    WHEN 'item' THEN EXISTS (
        SELECT FROM redrive.items AS item JOIN redrive.upload_groups AS sent
            ON (sent.upload, sent.group_name) = (item.upload, item.group_name)
        WHERE item.id = permit.unit_id AND sent.lease_epoch = permit.lease_epoch AND lease_owner IS NOT NULL
    )
    ELSE false
END;

-- The states of gates and keys, with the units that have permits: all of them, and those that were let through since the gate
-- last closed or opened.
CREATE VIEW redrive.gate_states AS
SELECT gate, key, status, state, (
    SELECT count(*) FROM redrive.live_permits AS permit
    WHERE permit.gate = gate_keys.gate AND permit.key = gate_keys.key
) AS held, (
    SELECT count(*) FROM redrive.live_permits AS permit
    WHERE permit.gate = gate_keys.gate AND permit.key = gate_keys.key AND permit.gate_epoch = (gate_keys.state::json ->> 'epoch')::bigint
) AS held_now
FROM redrive.gate_keys;
