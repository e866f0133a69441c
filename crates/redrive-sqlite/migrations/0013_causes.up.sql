-- The cause of a failed unit, and when it last failed.
ALTER TABLE runs ADD COLUMN error_code TEXT;
ALTER TABLE runs ADD COLUMN fingerprint TEXT;
ALTER TABLE runs ADD COLUMN last_failure_at INTEGER;
ALTER TABLE items ADD COLUMN error_class TEXT;
ALTER TABLE items ADD COLUMN error_code TEXT;
ALTER TABLE items ADD COLUMN fingerprint TEXT;
ALTER TABLE items ADD COLUMN last_failure_at INTEGER;
ALTER TABLE samples ADD COLUMN last_failure_at INTEGER;

-- The last failure of a partition. The columns of partition_state are fixed.
CREATE TABLE partition_failures (
    partition_id INTEGER PRIMARY KEY REFERENCES partition_state (id),
    class        TEXT NOT NULL,
    code         TEXT NOT NULL,
    fingerprint  TEXT NOT NULL,
    failed_at    INTEGER NOT NULL
) STRICT;

-- What failures have in common: class, code and normalised message. One of their messages, and what operators know.
CREATE TABLE causes (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    fingerprint TEXT NOT NULL UNIQUE,
    class       TEXT NOT NULL,
    code        TEXT NOT NULL,
    message     TEXT NOT NULL,
    first_at    INTEGER NOT NULL,
    mark        TEXT CHECK (mark = 'known' OR mark = 'fixed'),
    note        TEXT,
    ticket      TEXT,
    marked_at   INTEGER,
    marked_by   TEXT,
    -- When the cause came back after it was marked as fixed.
    returned_at INTEGER,
    CHECK ((mark IS NULL) = (marked_at IS NULL)),
    CHECK ((mark IS NULL) = (marked_by IS NULL)),
    CHECK (returned_at IS NULL OR mark = 'fixed')
) STRICT;

-- Failed attempts by cause, hour, kind and place: a queue, a source, an upload, or a pipeline with a stage.
CREATE TABLE cause_hours (
    hour        INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    kind        TEXT NOT NULL,
    place       TEXT NOT NULL,
    attempts    INTEGER NOT NULL CHECK (attempts >= 1),
    last_at     INTEGER NOT NULL,
    -- The unit of the last failure.
    unit_id     INTEGER NOT NULL,
    PRIMARY KEY (hour, fingerprint, kind, place)
) STRICT, WITHOUT ROWID;

UPDATE runs SET (error_code, fingerprint, last_failure_at) = (
    SELECT code, fingerprint, ended_at FROM attempts
    WHERE kind = 'run' AND unit_id = runs.id AND stage = '' AND attempt = runs.attempts
) WHERE status = 'error';
UPDATE items SET (error_class, error_code, fingerprint, last_failure_at) = (
    SELECT class, code, fingerprint, ended_at FROM attempts
    WHERE kind = 'item' AND unit_id = items.id AND stage = '' AND attempt = items.last_attempt
) WHERE status = 'pending' OR status = 'upload_giveup';
UPDATE samples SET last_failure_at = last_attempt_at WHERE fingerprint IS NOT NULL;
INSERT INTO partition_failures (partition_id, class, code, fingerprint, failed_at)
SELECT unit_id, class, code, fingerprint, ended_at FROM attempts AS last
WHERE kind = 'partition' AND class IS NOT NULL AND code IS NOT NULL AND fingerprint IS NOT NULL
    AND attempt = (
        SELECT max(attempt) FROM attempts
        WHERE kind = 'partition' AND unit_id = last.unit_id AND fingerprint IS NOT NULL
    );
-- Lines of a source that are no samples have no attempts.
CREATE TEMPORARY TABLE failures AS
SELECT
    kind, unit_id, fingerprint, class, code, message, ended_at AS at,
    CASE kind
        WHEN 'run' THEN (SELECT queue FROM runs WHERE id = unit_id)
        WHEN 'item' THEN (SELECT upload FROM items WHERE id = unit_id)
        WHEN 'partition' THEN (SELECT source FROM partition_state WHERE id = unit_id)
        ELSE (
            SELECT run.pipeline || '/' || attempts.stage FROM samples, pipeline_runs AS run
            WHERE samples.id = unit_id AND run.id = samples.run_id
        )
    END AS place
FROM attempts WHERE fingerprint IS NOT NULL
UNION ALL
SELECT
    'sample', samples.id, fingerprint, error_class, error_code, error_message, last_attempt_at,
    run.pipeline || '/source'
FROM samples, pipeline_runs AS run
WHERE samples.fingerprint IS NOT NULL AND samples.data IS NULL AND run.id = samples.run_id;
INSERT INTO causes (fingerprint, class, code, message, first_at)
SELECT fingerprint, coalesce(class, ''), coalesce(code, ''), coalesce(message, ''), min(at)
FROM failures WHERE at IS NOT NULL GROUP BY fingerprint;
INSERT INTO cause_hours (hour, fingerprint, kind, place, attempts, last_at, unit_id)
SELECT at - at % 3600000000, fingerprint, kind, coalesce(place, ''), count(*), max(at), unit_id
FROM failures WHERE at IS NOT NULL GROUP BY at - at % 3600000000, fingerprint, kind, coalesce(place, '');
DROP TABLE failures;

-- Units by their cause: those that wait or are stuck.
CREATE INDEX runs_cause ON runs (fingerprint, id, next_retry_at, status) WHERE status = 'error';
CREATE INDEX items_cause ON items (fingerprint, id, status) WHERE fingerprint IS NOT NULL;
CREATE INDEX items_open ON items (id) WHERE fingerprint IS NOT NULL;
CREATE INDEX samples_cause ON samples (fingerprint, id, status, next_retry_at, run_id) WHERE fingerprint IS NOT NULL;
CREATE INDEX partition_failures_cause ON partition_failures (fingerprint, partition_id);
CREATE INDEX cause_hours_cause ON cause_hours (fingerprint, hour);
