-- The processes that work on units, each with a lease; times are on the lease clock.
CREATE TABLE workers (
    id          TEXT PRIMARY KEY,
    host        TEXT NOT NULL,
    process     INTEGER NOT NULL,
    version     TEXT NOT NULL,
    started_at  INTEGER NOT NULL,
    heard_at    INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    draining    INTEGER NOT NULL CHECK (draining IN (0, 1)),
    -- What the process serves and holds: JSON.
    places      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Attempts by period, place and outcome, added up by the processes that made them. A period is a minute, ten minutes or an
-- hour. The place is a queue, a source, an upload, a pipeline, a pipeline with a stage, or empty for all places of the kind.
CREATE TABLE attempt_counts (
    seconds    INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    place      TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    outcome    TEXT NOT NULL,
    attempts   INTEGER NOT NULL CHECK (attempts >= 1),
    -- The sum of the durations, in microseconds.
    took       INTEGER NOT NULL CHECK (took >= 0),
    PRIMARY KEY (seconds, kind, place, started_at, outcome)
) STRICT, WITHOUT ROWID;

CREATE INDEX attempt_counts_age ON attempt_counts (seconds, started_at);
