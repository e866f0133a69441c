-- The schema after all migrations. Written for people: the migrations make it, and a test holds the
-- two equal.
--
-- Text that an index holds is compared byte by byte (COLLATE "C"): a new version of the server's
-- collation library cannot put such an index out of order. JSON is kept as text, because jsonb
-- refuses \u0000 and would change what it is given. Lease ends are on the server's clock.

CREATE SCHEMA redrive;

CREATE TABLE redrive.schema_migrations (
    version    bigint PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL
);

CREATE TABLE redrive.runs (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue            text COLLATE "C" NOT NULL,
    category         text COLLATE "C" NOT NULL DEFAULT '',
    payload          text NOT NULL,
    submitted_at     timestamptz NOT NULL,
    not_before       timestamptz,
    idempotency_key  text COLLATE "C",
    status           text NOT NULL DEFAULT 'discovered' CHECK (status IN
                     ('discovered', 'processing', 'passed', 'needs_review', 'failed', 'error',
                      'cancelled')),
    attempts         bigint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- How many there were when the count last began anew: a retry asked for by hand does that.
    attempts_at_reset bigint NOT NULL DEFAULT 0 CHECK (attempts_at_reset >= 0),
    retry_count      bigint NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    deferrals        bigint NOT NULL DEFAULT 0 CHECK (deferrals >= 0),
    next_retry_at    timestamptz,
    first_attempt_at timestamptz,
    error_class      text CHECK (error_class IN ('final', 'retryable', 'rate_limited')),
    error_message    text,
    result           text,
    -- A claim takes what is ready. What waits for a retry or its start has a due_at instead.
    ready            boolean NOT NULL,
    due_at           timestamptz,
    lease_owner      text,
    lease_epoch      bigint NOT NULL DEFAULT 0,
    lease_until      timestamptz,
    CONSTRAINT runs_ready_is_not_due CHECK (NOT ready OR due_at IS NULL),
    CONSTRAINT runs_ready_is_waiting CHECK (NOT ready OR status IN ('discovered', 'error')),
    CONSTRAINT runs_processing_is_leased CHECK ((status = 'processing') = (lease_owner IS NOT NULL)),
    CONSTRAINT runs_lease_is_whole CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) WITH (fillfactor = 70);

-- No index on leases and none on status: a success changes no indexed column, so its new row stays on
-- the page of the old one, where the fill factor leaves room, and no index is touched.
CREATE INDEX runs_ready ON redrive.runs (queue, category, submitted_at, id) WHERE ready;
CREATE INDEX runs_due ON redrive.runs (queue, due_at) WHERE due_at IS NOT NULL;
CREATE UNIQUE INDEX runs_idempotency ON redrive.runs (queue, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

-- A queue that is in it gives nothing to a claim.
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
    -- Rejections, and what their count was when an operator last reset it.
    upload_attempts   integer NOT NULL DEFAULT 0,
    attempts_at_reset integer NOT NULL DEFAULT 0,
    UNIQUE (upload, group_name, name)
);

CREATE INDEX items_pending ON redrive.items (upload, group_name, id) WHERE status = 'pending';

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
    UNIQUE (unit_id, kind, stage, attempt)
);

-- Units and dedupe keys may be longer than an entry of a btree can be, so both are found by hash.
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

CREATE FUNCTION redrive.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the % is append-only', TG_ARGV[0];
END
$$;

CREATE TRIGGER attempts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON redrive.attempts
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.refuse_change('ledger');
CREATE TRIGGER journal_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON redrive.journal
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.refuse_change('journal');
