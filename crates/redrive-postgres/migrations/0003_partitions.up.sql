-- What partitions are.
CREATE TABLE redrive.partition_state (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source         text COLLATE "C" NOT NULL CHECK (source <> ''),
    customer_id    text COLLATE "C" NOT NULL CHECK (customer_id <> ''),
    query_name     text COLLATE "C" NOT NULL CHECK (query_name <> ''),
    logical_date   date NOT NULL CHECK (logical_date BETWEEN '0001-01-01' AND '9999-12-31'),
    status         text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'success', 'failed')),
    current_run_id text,
    schema_version text,
    record_count   bigint CHECK (record_count >= 0),
    attempt_count  bigint NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
    error_message  text,
    updated_at     timestamptz NOT NULL,
    CONSTRAINT partition_state_key UNIQUE (source, customer_id, query_name, logical_date),
    CONSTRAINT partition_state_success_has_a_run
        CHECK (status <> 'success' OR (current_run_id IS NOT NULL AND record_count IS NOT NULL)),
    CONSTRAINT partition_state_verdict_is_counted CHECK (status = 'pending' OR attempt_count >= 1)
);

-- The daemon looks at these alone, in the order of the keys.
CREATE INDEX partition_state_failed
    ON redrive.partition_state (source, customer_id, query_name, logical_date)
    WHERE status = 'failed';

-- What is asked for and who holds it. A row lives while something is outstanding or the partition is
-- paused; every request that is done with takes its row along.
CREATE TABLE redrive.partition_work (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partition_id bigint NOT NULL UNIQUE REFERENCES redrive.partition_state (id),
    source       text COLLATE "C" NOT NULL,
    kind         text CHECK (kind IN ('first', 'retry', 'reprocess')),
    lane         text COLLATE "C" CHECK (lane IN ('fresh', 'backfill')),
    requested_at timestamptz,
    requested_by text,
    run_id       text,
    lease_owner  text,
    lease_epoch  bigint NOT NULL DEFAULT 0 CHECK (lease_epoch >= 0),
    lease_until  timestamptz,
    paused_at    timestamptz,
    paused_by    text,
    pause_reason text,
    CONSTRAINT partition_work_request_is_whole CHECK (
        (kind IS NULL) = (lane IS NULL) AND (kind IS NULL) = (requested_at IS NULL)
        AND (kind IS NULL) = (requested_by IS NULL)),
    CONSTRAINT partition_work_pause_is_whole CHECK ((paused_at IS NULL) = (paused_by IS NULL)),
    CONSTRAINT partition_work_has_a_reason CHECK (kind IS NOT NULL OR paused_at IS NOT NULL),
    CONSTRAINT partition_work_lease_is_whole CHECK (
        (lease_owner IS NULL) = (lease_until IS NULL) AND (lease_owner IS NULL) = (run_id IS NULL)),
    CONSTRAINT partition_work_held_is_asked_for CHECK (kind IS NOT NULL OR lease_owner IS NULL)
);

-- Claims go by it, one range per lane.
CREATE INDEX partition_work_ready ON redrive.partition_work (source, lane, requested_at, id)
    WHERE kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL;
-- What is held, so that looking for ended leases does not read what is only asked for.
CREATE INDEX partition_work_held ON redrive.partition_work (id) WHERE lease_owner IS NOT NULL;

-- After a rollback the ledger still names the partitions there were; their ids are not given out again.
SELECT setval(pg_get_serial_sequence('redrive.partition_state', 'id'), max(unit_id))
FROM redrive.attempts WHERE kind = 'partition' HAVING max(unit_id) > 0;
