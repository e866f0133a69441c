-- The schema after all migrations, for readers. The migrations create it; a test compares the two.
--
-- Indexed text is compared byte by byte (COLLATE "C"), so that a new version of the server's collation
-- library cannot corrupt the order of an index. JSON is stored as text, because jsonb rejects \u0000 and
-- normalizes its input. Lease ends are on the server's clock.

CREATE SCHEMA redrive;

CREATE TABLE redrive.schema_migrations (
    version    bigint PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL
);

-- Runs as they were submitted. Nothing but an edit of the payload changes a row: where a run is, and what became of it, is
-- known by the tables below. The view run_records puts them together.
CREATE TABLE redrive.runs (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue            text COLLATE "C" NOT NULL,
    category         text COLLATE "C" NOT NULL DEFAULT '',
    payload          text NOT NULL,
    submitted_at     timestamptz NOT NULL,
    not_before       timestamptz,
    idempotency_key  text COLLATE "C"
);

CREATE UNIQUE INDEX runs_idempotency ON redrive.runs (queue, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

-- What is known of runs beyond their submission: of those that failed and have not passed, and that ended otherwise than by
-- a pass. A pass removes the row, unless it has a long result. A run without a row that is neither ready nor due nor
-- held has passed, and so has one whose row says discovered. A held run keeps its row.
CREATE TABLE redrive.run_states (
    id               bigint PRIMARY KEY,
    -- As in the run.
    queue            text COLLATE "C" NOT NULL,
    category         text COLLATE "C" NOT NULL,
    submitted_at     timestamptz NOT NULL,
    status           text NOT NULL CHECK (status IN
                     ('discovered', 'passed', 'needs_review', 'failed', 'error', 'cancelled')),
    -- Whether next_retry_at is set, for an index that another time does not change.
    waits            boolean NOT NULL DEFAULT false,
    attempts         bigint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- The attempts before the last retry by an operator, which starts the count again.
    attempts_at_reset bigint NOT NULL DEFAULT 0 CHECK (attempts_at_reset >= 0),
    retry_count      bigint NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    deferrals        bigint NOT NULL DEFAULT 0 CHECK (deferrals >= 0),
    next_retry_at    timestamptz,
    first_attempt_at timestamptz,
    last_failure_at  timestamptz,
    -- The epoch of the last lease that ended.
    lease_epoch      bigint NOT NULL DEFAULT 0,
    error_class      text CHECK (error_class IN ('final', 'retryable', 'rate_limited')),
    error_code       text,
    error_message    text,
    -- The cause of the last failure.
    fingerprint      text COLLATE "C",
    result           text,
    CONSTRAINT run_states_wait_until CHECK (waits = (next_retry_at IS NOT NULL))
) WITH (fillfactor = 80);

-- Runs by their cause: those that wait or are stuck.
CREATE INDEX run_states_cause ON redrive.run_states (fingerprint, id) INCLUDE (waits) WHERE status = 'error';
-- Runs that ended otherwise than most, for lists by state.
CREATE INDEX run_states_not_passed ON redrive.run_states (status, id)
    WHERE status IN ('needs_review', 'failed', 'cancelled');

-- Runs that a claim may take, in the order of claims. A claim deletes its rows.
CREATE TABLE redrive.ready_runs (
    queue        text COLLATE "C" NOT NULL,
    category     text COLLATE "C" NOT NULL,
    submitted_at timestamptz NOT NULL,
    id           bigint NOT NULL,
    -- Whether the run is discovered, and not in error.
    fresh        boolean NOT NULL,
    -- Whether run_states has a row for it, which spares claims a look at those that have none.
    has_state    boolean NOT NULL DEFAULT false,
    CONSTRAINT ready_runs_key PRIMARY KEY (queue, category, submitted_at, id)
);

-- Runs that wait for a retry or their start, at next_retry_at or not_before. A claim moves those that are due to the ready ones.
CREATE TABLE redrive.due_runs (
    queue        text COLLATE "C" NOT NULL,
    due_at       timestamptz NOT NULL,
    id           bigint NOT NULL,
    category     text COLLATE "C" NOT NULL,
    submitted_at timestamptz NOT NULL,
    fresh        boolean NOT NULL,
    CONSTRAINT due_runs_key PRIMARY KEY (queue, due_at, id)
);

-- The epochs of leases: those of a run only grow.
CREATE SEQUENCE redrive.run_epochs;

-- Leases. The runs of a claim have one epoch, and a row per block of 256 ids while they are held; runs that were renewed without
-- the others have a second row. A run that ends leaves its row.
CREATE TABLE redrive.run_claims (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    epoch       bigint NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    owner       text NOT NULL,
    lease_until timestamptz NOT NULL,
    claimed_at  timestamptz,
    -- Bounds of the ids.
    first_run   bigint NOT NULL,
    last_run    bigint NOT NULL,
    run_ids     bigint[] NOT NULL CHECK (cardinality(run_ids) >= 1)
) WITH (fillfactor = 50);

-- Not compressed: 256 ids fit a page, and a claim is written and read within seconds.
ALTER TABLE redrive.run_claims ALTER COLUMN run_ids SET STORAGE PLAIN;
-- Whoever locks several claims locks them in the order of this index.
CREATE INDEX run_claims_epoch ON redrive.run_claims (epoch, first_run, id);

-- Runs of these queues are not claimed.
CREATE TABLE redrive.paused_queues (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue     text COLLATE "C" NOT NULL UNIQUE,
    paused_at timestamptz NOT NULL,
    paused_by text NOT NULL,
    reason    text
);

CREATE TABLE redrive.items (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    upload            text COLLATE "C" NOT NULL,
    group_name        text COLLATE "C" NOT NULL,
    name              text COLLATE "C" NOT NULL,
    content_url       text NOT NULL,
    size_bytes        bigint NOT NULL CHECK (size_bytes >= 0),
    sha256            text NOT NULL,
    status            text NOT NULL DEFAULT 'pending' CHECK (status IN
                      ('pending', 'uploaded', 'trusted', 'rejected', 'upload_giveup')),
    rejection_reason  text,
    updated_at        timestamptz NOT NULL,
    -- Rejections, and their number at the last reset by an operator.
    upload_attempts   integer NOT NULL DEFAULT 0,
    attempts_at_reset integer NOT NULL DEFAULT 0,
    -- The number of the item's last attempt in the ledger.
    last_attempt      bigint NOT NULL DEFAULT 0 CHECK (last_attempt >= 0),
    error_class       text,
    error_code        text,
    fingerprint       text COLLATE "C",
    last_failure_at   timestamptz,
    -- An item changes at least once, and then its name is in the index twice.
    UNIQUE (upload, group_name, name) WITH (fillfactor = 50)
);

CREATE INDEX items_pending ON redrive.items (upload, group_name, id) WHERE status = 'pending';
CREATE INDEX items_cause ON redrive.items (fingerprint, id) INCLUDE (status) WHERE fingerprint IS NOT NULL;
CREATE INDEX items_open ON redrive.items (id) WHERE fingerprint IS NOT NULL;

-- The leases of groups of items. The first upload of a group inserts its row.
CREATE TABLE redrive.upload_groups (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    upload      text COLLATE "C" NOT NULL,
    group_name  text COLLATE "C" NOT NULL,
    lease_owner text,
    lease_epoch bigint NOT NULL DEFAULT 0 CHECK (lease_epoch >= 0),
    lease_until timestamptz,
    CONSTRAINT upload_groups_name UNIQUE (upload, group_name),
    CONSTRAINT upload_groups_lease_is_whole CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
);

-- Held groups, so that the search for ended leases does not read all groups.
CREATE INDEX upload_groups_held ON redrive.upload_groups (id) WHERE lease_owner IS NOT NULL;

-- The state of partitions.
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

-- The daemon reads only failed partitions, in the order of the keys.
CREATE INDEX partition_state_failed
    ON redrive.partition_state (source, customer_id, query_name, logical_date)
    WHERE status = 'failed';

-- The last failure of a partition. The columns of partition_state are fixed.
CREATE TABLE redrive.partition_failures (
    partition_id bigint PRIMARY KEY REFERENCES redrive.partition_state (id),
    class        text NOT NULL,
    code         text NOT NULL,
    fingerprint  text COLLATE "C" NOT NULL,
    failed_at    timestamptz NOT NULL
);

CREATE INDEX partition_failures_cause ON redrive.partition_failures (fingerprint, partition_id);

-- Requests for partitions and their leases. A row exists while a request is outstanding or the partition is
-- paused; a finished request removes its row.
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
    customer_id  text COLLATE "C" NOT NULL DEFAULT '',
    CONSTRAINT partition_work_request_is_whole CHECK (
        (kind IS NULL) = (lane IS NULL) AND (kind IS NULL) = (requested_at IS NULL)
        AND (kind IS NULL) = (requested_by IS NULL)),
    CONSTRAINT partition_work_pause_is_whole CHECK ((paused_at IS NULL) = (paused_by IS NULL)),
    CONSTRAINT partition_work_has_a_reason CHECK (kind IS NOT NULL OR paused_at IS NOT NULL),
    CONSTRAINT partition_work_lease_is_whole CHECK (
        (lease_owner IS NULL) = (lease_until IS NULL) AND (lease_owner IS NULL) = (run_id IS NULL)),
    CONSTRAINT partition_work_held_is_asked_for CHECK (kind IS NOT NULL OR lease_owner IS NULL)
);

-- Claims read one range per lane.
CREATE INDEX partition_work_ready ON redrive.partition_work (source, lane, requested_at, id)
    WHERE kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL;
-- Claims behind gates read one range per customer and lane.
CREATE INDEX partition_work_customers ON redrive.partition_work (source, customer_id, lane, requested_at, id)
    WHERE kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL;
-- Held work, so that the search for ended leases does not read waiting requests.
CREATE INDEX partition_work_held ON redrive.partition_work (id) WHERE lease_owner IS NOT NULL;

-- Pipeline runs: the position in the source, and the counts of samples.
CREATE TABLE redrive.pipeline_runs (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline         text COLLATE "C" NOT NULL CHECK (pipeline <> ''),
    status           text NOT NULL DEFAULT 'running' CHECK (status IN
                     ('running', 'completed', 'partial_success', 'failed', 'aborted', 'cancelled')),
    stages           text[] NOT NULL CHECK (cardinality(stages) >= 1),
    rules            text NOT NULL,             -- thresholds and failure budget, as JSON
    read_ahead       bigint NOT NULL CHECK (read_ahead >= 1),
    source           text NOT NULL,
    source_lines     bigint NOT NULL DEFAULT 0 CHECK (source_lines >= 0),
    source_bytes     bigint NOT NULL DEFAULT 0 CHECK (source_bytes >= 0),
    source_check     text,
    source_done      boolean NOT NULL DEFAULT false,
    total            bigint NOT NULL DEFAULT 0,
    succeeded        bigint NOT NULL DEFAULT 0 CHECK (succeeded >= 0),
    skipped          bigint NOT NULL DEFAULT 0 CHECK (skipped >= 0),
    dlq              bigint NOT NULL DEFAULT 0 CHECK (dlq >= 0),
    budget_processed bigint NOT NULL DEFAULT 0 CHECK (budget_processed >= 0),
    budget_failed    bigint NOT NULL DEFAULT 0 CHECK (budget_failed >= 0),
    started_at       timestamptz NOT NULL,
    started_by       text NOT NULL,
    ended_at         timestamptz,
    stop_reason      text,
    -- The lease of the source's reader.
    lease_owner      text,
    lease_epoch      bigint NOT NULL DEFAULT 0 CHECK (lease_epoch >= 0),
    lease_until      timestamptz,
    -- Samples that were pruned; the counts above include them.
    pruned_succeeded bigint NOT NULL DEFAULT 0,
    pruned_skipped   bigint NOT NULL DEFAULT 0,
    pruned_dlq       bigint NOT NULL DEFAULT 0,
    CONSTRAINT pipeline_runs_samples_are_read CHECK (total >= succeeded + skipped + dlq),
    CONSTRAINT pipeline_runs_running_has_no_end CHECK ((status = 'running') = (ended_at IS NULL)),
    CONSTRAINT pipeline_runs_lease_is_whole CHECK ((lease_owner IS NULL) = (lease_until IS NULL)),
    CONSTRAINT pipeline_runs_pruned_had_ended CHECK (
        pruned_succeeded BETWEEN 0 AND succeeded AND pruned_skipped BETWEEN 0 AND skipped
        AND pruned_dlq BETWEEN 0 AND dlq)
) WITH (fillfactor = 50);

-- Every batch of ended samples changes the counts, which are in no index.
CREATE INDEX pipeline_runs_live ON redrive.pipeline_runs (pipeline, id) WHERE status = 'running';
CREATE INDEX pipeline_runs_held ON redrive.pipeline_runs (id) WHERE lease_owner IS NOT NULL;

-- A claim and each stage update all samples of a page at once; with less than half of it in use, no index changes.
CREATE TABLE redrive.samples (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id           bigint NOT NULL REFERENCES redrive.pipeline_runs (id),
    line             bigint NOT NULL CHECK (line >= 1),
    data             text,                      -- none: the line was no sample
    status           text NOT NULL DEFAULT 'pending' CHECK (status IN
                     ('pending', 'succeeded', 'skipped', 'dlq')),
    stage            bigint NOT NULL DEFAULT 0 CHECK (stage >= 0),
    -- At this stage.
    attempts         bigint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    attempts_at_reset bigint NOT NULL DEFAULT 0 CHECK (attempts_at_reset >= 0),
    retry_count      bigint NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    deferrals        bigint NOT NULL DEFAULT 0 CHECK (deferrals >= 0),
    next_retry_at    timestamptz,
    first_attempt_at timestamptz,
    last_attempt_at  timestamptz,
    error_class      text CHECK (error_class IN ('final', 'retryable', 'rate_limited')),
    error_code       text,
    error_message    text,
    fingerprint      text COLLATE "C",
    skip_reason      text,
    lease_owner      text,
    lease_epoch      bigint NOT NULL DEFAULT 0 CHECK (lease_epoch >= 0),
    lease_until      timestamptz,
    -- The stage at which claims find the sample: its stage, or while it is held the stage where it was claimed.
    claim_stage      bigint NOT NULL DEFAULT 0,
    claimed_at       timestamptz,
    -- What the line of the source was.
    line_hash        bigint,
    last_failure_at  timestamptz,
    -- What the sample passes gates with at its stage. Unknown until a claim behind gates finds the sample.
    gate_key         text COLLATE "C",
    CONSTRAINT samples_line UNIQUE (run_id, line),
    CONSTRAINT samples_ended_is_free
        CHECK (status = 'pending' OR (lease_owner IS NULL AND next_retry_at IS NULL)),
    CONSTRAINT samples_held_does_not_wait CHECK (lease_owner IS NULL OR next_retry_at IS NULL),
    CONSTRAINT samples_alive_has_data CHECK (data IS NOT NULL OR status = 'dlq'),
    CONSTRAINT samples_dead_has_an_error CHECK (status <> 'dlq' OR error_message IS NOT NULL),
    CONSTRAINT samples_lease_is_whole CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) WITH (fillfactor = 45);

-- Claims read these two indexes. Held samples are among the open ones, whose number the read-ahead limits. No index
-- has the lease or the stage of a held sample, so neither a claim nor an advance to the next stage under the same
-- lease changes an indexed column.
CREATE INDEX samples_open ON redrive.samples (run_id, claim_stage, gate_key, id)
    WHERE status = 'pending' AND next_retry_at IS NULL;
CREATE INDEX samples_due ON redrive.samples (run_id, claim_stage, next_retry_at)
    WHERE next_retry_at IS NOT NULL;
-- Dead letters, for pages and for the counts of a run.
CREATE INDEX samples_dead ON redrive.samples (id) WHERE status = 'dlq';
CREATE INDEX samples_dlq ON redrive.samples (run_id) WHERE status = 'dlq';
CREATE INDEX samples_skipped ON redrive.samples (run_id) WHERE status = 'skipped';
CREATE INDEX samples_cause ON redrive.samples (fingerprint, id) INCLUDE (status, next_retry_at, run_id)
    WHERE fingerprint IS NOT NULL;

-- The ledger: one row per execution, written when it ends.
CREATE TABLE redrive.attempts (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind              text COLLATE "C" NOT NULL CHECK (kind IN
                      ('partition', 'run', 'item', 'sample')),
    unit_id           bigint NOT NULL,
    stage             text COLLATE "C" NOT NULL DEFAULT '',
    stage_config_hash text,
    attempt           bigint NOT NULL CHECK (attempt >= 1),
    counted           boolean NOT NULL,
    run_id            text,
    started_at        timestamptz NOT NULL,
    ended_at          timestamptz NOT NULL,
    outcome           text NOT NULL CHECK (outcome IN
                      ('success', 'retrying', 'failed', 'skipped')),
    class             text CHECK (class IN ('final', 'retryable', 'rate_limited')),
    code              text,
    message           text,
    fingerprint       text,
    cause             text CHECK (cause IN
                      ('handler', 'validator', 'timeout', 'lost_worker', 'shutdown', 'spawn')),
    delay_us          bigint CHECK (delay_us >= 0),
    worker            text NOT NULL,
    -- The wait that the server asked for.
    asked_us          bigint CHECK (asked_us >= 0),
    UNIQUE (unit_id, kind, stage, attempt)
);

-- The ledger of attempts by which runs passed: one row per finish, claim and block of 256 ids. The view pass_attempts has
-- them as rows. Numbers are those of the ledger. Runs that failed before have rows of their own, with what was known of them.
CREATE TABLE redrive.run_passes (
    id         bigint PRIMARY KEY DEFAULT nextval('redrive.attempts_id_seq'),
    block      bigint NOT NULL,
    epoch      bigint NOT NULL,
    worker     text NOT NULL,
    run_ids    bigint[] NOT NULL CHECK (cardinality(run_ids) >= 1),
    started_at timestamptz[] NOT NULL,
    ended_at   timestamptz[] NOT NULL,
    results    text[],
    -- Not of first attempts.
    attempts          bigint[],
    attempts_at_reset bigint[],
    first_attempt_at  timestamptz[],
    last_failure_at   timestamptz[],
    CONSTRAINT run_passes_are_whole CHECK (
        cardinality(started_at) = cardinality(run_ids) AND cardinality(ended_at) = cardinality(run_ids)
        AND (results IS NULL OR cardinality(results) = cardinality(run_ids))),
    CONSTRAINT run_passes_know_the_past CHECK (
        attempts IS NULL OR cardinality(attempts) = cardinality(run_ids)
            AND cardinality(attempts_at_reset) = cardinality(run_ids)
            AND cardinality(first_attempt_at) = cardinality(run_ids)
            AND cardinality(last_failure_at) = cardinality(run_ids))
);

-- Not compressed: that costs more than it saves.
ALTER TABLE redrive.run_passes ALTER COLUMN run_ids SET STORAGE EXTERNAL,
    ALTER COLUMN started_at SET STORAGE EXTERNAL, ALTER COLUMN ended_at SET STORAGE EXTERNAL,
    ALTER COLUMN attempts SET STORAGE EXTERNAL, ALTER COLUMN attempts_at_reset SET STORAGE EXTERNAL,
    ALTER COLUMN first_attempt_at SET STORAGE EXTERNAL, ALTER COLUMN last_failure_at SET STORAGE EXTERNAL;
CREATE INDEX run_passes_block ON redrive.run_passes (block);

-- What is known of a run, wherever it is stored.
CREATE VIEW redrive.run_records AS
SELECT
    run.id, run.queue, run.category, run.payload, run.submitted_at, run.not_before, run.idempotency_key,
    CASE
        WHEN held.epoch IS NOT NULL THEN 'processing'
        WHEN pass.epoch IS NOT NULL THEN 'passed'
        ELSE coalesce(state.status, 'discovered')
    END AS status,
    coalesce(pass.attempt, state.attempts, 0) AS attempts,
    coalesce(pass.attempts_at_reset, state.attempts_at_reset, 0) AS attempts_at_reset,
    coalesce(state.retry_count, 0) AS retry_count, coalesce(state.deferrals, 0) AS deferrals,
    CASE WHEN held.epoch IS NULL THEN state.next_retry_at END AS next_retry_at,
    coalesce(state.first_attempt_at, pass.first_attempt_at) AS first_attempt_at,
    state.error_class, state.error_message, coalesce(state.result, pass.result) AS result,
    held.owner AS lease_owner, coalesce(held.epoch, pass.epoch, state.lease_epoch, 0) AS lease_epoch,
    held.lease_until, ready.id IS NOT NULL AS ready, due.due_at, state.error_code, state.fingerprint,
    coalesce(state.last_failure_at, pass.last_failure_at) AS last_failure_at, pass.ended_at AS passed_at
FROM redrive.runs AS run
LEFT JOIN redrive.run_states AS state ON state.id = run.id
LEFT JOIN LATERAL (
    SELECT id FROM redrive.ready_runs AS it
    WHERE it.queue = run.queue AND it.category = run.category AND it.submitted_at = run.submitted_at
        AND it.id = run.id
) AS ready ON true
LEFT JOIN LATERAL (
    SELECT due_at FROM redrive.due_runs AS it
    WHERE it.queue = run.queue AND it.due_at = coalesce(state.next_retry_at, run.not_before)
        AND it.id = run.id
) AS due ON true
LEFT JOIN LATERAL (
    SELECT epoch, owner, lease_until FROM redrive.run_claims AS it
    WHERE coalesce(state.status, 'discovered') IN ('discovered', 'error') AND ready.id IS NULL AND due.due_at IS NULL
        AND run.id BETWEEN it.first_run AND it.last_run AND run.id = ANY (it.run_ids)
    LIMIT 1
) AS held ON true
LEFT JOIN LATERAL (
    SELECT
        it.epoch, it.started_at[place.at], it.ended_at[place.at], it.results[place.at] AS result,
        coalesce(it.attempts[place.at], 1) AS attempt, it.attempts_at_reset[place.at],
        coalesce(it.first_attempt_at[place.at], it.started_at[place.at]) AS first_attempt_at,
        it.last_failure_at[place.at]
    FROM redrive.run_passes AS it CROSS JOIN LATERAL array_position(it.run_ids, run.id) AS place (at)
    WHERE coalesce(state.status, 'discovered') = 'discovered' AND coalesce(state.attempts, 0) = 0
        AND ready.id IS NULL AND due.due_at IS NULL AND held.epoch IS NULL
        AND it.block = run.id >> 8 AND place.at IS NOT NULL
    LIMIT 1
) AS pass ON true;

-- The attempts by which runs passed, as rows of the ledger.
CREATE VIEW redrive.pass_attempts AS
SELECT
    pass.id AS pass_id, pass.block, 'run'::text COLLATE "C" AS kind, entry.unit_id, ''::text COLLATE "C" AS stage,
    NULL::text AS stage_config_hash, coalesce(entry.attempt, 1) AS attempt, true AS counted, NULL::text AS run_id,
    entry.started_at, entry.ended_at, 'success'::text AS outcome, NULL::text AS class, NULL::text AS code,
    NULL::text AS message, NULL::text AS fingerprint, NULL::text AS cause, NULL::bigint AS delay_us, pass.worker,
    NULL::bigint AS asked_us
FROM redrive.run_passes AS pass
CROSS JOIN LATERAL unnest(pass.run_ids, pass.started_at, pass.ended_at, pass.attempts)
    AS entry (unit_id, started_at, ended_at, attempt);

-- What failures have in common: class, code and normalised message. One of their messages, and what operators know.
CREATE TABLE redrive.causes (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint text COLLATE "C" NOT NULL CONSTRAINT causes_fingerprint UNIQUE,
    class       text NOT NULL,
    code        text NOT NULL,
    message     text NOT NULL,
    first_at    timestamptz NOT NULL,
    mark        text CHECK (mark IN ('known', 'fixed')),
    note        text,
    ticket      text,
    marked_at   timestamptz,
    marked_by   text,
    -- When the cause came back after it was marked as fixed.
    returned_at timestamptz,
    CONSTRAINT causes_mark_has_time CHECK ((mark IS NULL) = (marked_at IS NULL)),
    CONSTRAINT causes_mark_has_actor CHECK ((mark IS NULL) = (marked_by IS NULL)),
    CONSTRAINT causes_fixed_returns CHECK (returned_at IS NULL OR mark = 'fixed')
);

-- Failed attempts by cause, hour, kind and place: a queue, a source, an upload, or a pipeline with a stage.
CREATE TABLE redrive.cause_hours (
    hour        timestamptz NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    place       text COLLATE "C" NOT NULL,
    attempts    bigint NOT NULL CHECK (attempts >= 1),
    last_at     timestamptz NOT NULL,
    -- The unit of the last failure.
    unit_id     bigint NOT NULL,
    CONSTRAINT cause_hours_key PRIMARY KEY (hour, fingerprint, kind, place)
) WITH (fillfactor = 50);

CREATE INDEX cause_hours_cause ON redrive.cause_hours (fingerprint, hour);

-- The ledger of samples, under names for queries by hand.
CREATE VIEW redrive.stages_applied AS
SELECT unit_id AS sample_id, stage AS stage_name, stage_config_hash, attempt, outcome AS status,
    message AS error_message, ended_at AS applied_at
FROM redrive.attempts WHERE kind = 'sample';

-- The processes that work on units, each with a lease; times are on the lease clock.
CREATE TABLE redrive.workers (
    id          text COLLATE "C" NOT NULL,
    host        text NOT NULL,
    process     bigint NOT NULL,
    version     text NOT NULL,
    started_at  timestamptz NOT NULL,
    heard_at    timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    draining    boolean NOT NULL,
    -- What the process serves and holds: JSON.
    places      text NOT NULL,
    CONSTRAINT workers_id PRIMARY KEY (id)
) WITH (fillfactor = 50);

-- Attempts by period, place and outcome, added up by the processes that made them. A period is a minute, ten minutes or an
-- hour. The place is a queue, a source, an upload, a pipeline, a pipeline with a stage, or empty for all places of the kind.
CREATE TABLE redrive.attempt_counts (
    seconds    bigint NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    place      text COLLATE "C" NOT NULL,
    started_at timestamptz NOT NULL,
    outcome    text COLLATE "C" NOT NULL,
    attempts   bigint NOT NULL CHECK (attempts >= 1),
    -- The sum of the durations, in microseconds.
    took       bigint NOT NULL CHECK (took >= 0),
    CONSTRAINT attempt_counts_key PRIMARY KEY (seconds, kind, place, started_at, outcome)
) WITH (fillfactor = 50);

CREATE INDEX attempt_counts_age ON redrive.attempt_counts (seconds, started_at);

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
CREATE INDEX plans_live ON redrive.plans (id) WHERE status = 'running' OR status = 'paused';

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

-- Units and dedupe keys may be longer than a btree entry, so both are found by hash.
CREATE TABLE redrive.journal (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL,
    actor      text NOT NULL,
    action     text NOT NULL,
    unit       text,
    filter     text,
    details    text NOT NULL DEFAULT '{}',
    dedupe_key text,
    CONSTRAINT journal_dedupe_key EXCLUDE USING hash (dedupe_key WITH =)
);

CREATE INDEX journal_unit ON redrive.journal (hashtextextended(unit, 0), id)
    WHERE unit IS NOT NULL;

-- Positions of continuous readers of the journal.
CREATE TABLE redrive.journal_readers (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name    text COLLATE "C" NOT NULL UNIQUE,
    settled bigint NOT NULL CHECK (settled >= 0),
    seen    bigint NOT NULL,
    seen_at timestamptz NOT NULL,
    CONSTRAINT journal_readers_settled_was_seen CHECK (seen >= settled)
);

CREATE FUNCTION redrive.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the % is append-only', TG_ARGV[0];
END
$$;

-- Rows of runs and samples may go in a transaction whose setting redrive.pruning names the entry of the
-- journal that tells of it.
CREATE FUNCTION redrive.refuse_unless_pruning() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM redrive.journal
        WHERE dedupe_key = current_setting('redrive.pruning', true) AND action = 'prune.start'
    ) THEN
        RAISE EXCEPTION 'the ledger is append-only';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER attempts_append_only BEFORE UPDATE OR TRUNCATE ON redrive.attempts
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.refuse_change('ledger');
CREATE TRIGGER attempts_pruned_alone BEFORE DELETE ON redrive.attempts
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.refuse_unless_pruning();
CREATE TRIGGER attempts_kept BEFORE DELETE ON redrive.attempts
    FOR EACH ROW WHEN (OLD.kind NOT IN ('run', 'sample'))
    EXECUTE FUNCTION redrive.refuse_change('ledger');
CREATE TRIGGER journal_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON redrive.journal
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.refuse_change('journal');
CREATE TRIGGER run_passes_append_only BEFORE TRUNCATE ON redrive.run_passes
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.refuse_change('ledger');
CREATE TRIGGER run_passes_pruned_alone BEFORE UPDATE OR DELETE ON redrive.run_passes
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.refuse_unless_pruning();

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

-- What handlers logged during attempts. A log may be there before its attempt is in the ledger: it is written while the attempt
-- runs. A repeated attempt of the same number has a later epoch.
CREATE TABLE redrive.attempt_logs (
    kind       text COLLATE "C" NOT NULL,
    unit_id    bigint NOT NULL,
    stage      text COLLATE "C" NOT NULL,
    attempt    bigint NOT NULL,
    epoch      bigint NOT NULL,
    worker     text NOT NULL,
    printed    bigint NOT NULL,  -- bytes, before anything was left out
    written_at timestamptz NOT NULL,
    log        text NOT NULL,
    CONSTRAINT attempt_logs_key PRIMARY KEY (unit_id, kind, stage, attempt)
);
