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
