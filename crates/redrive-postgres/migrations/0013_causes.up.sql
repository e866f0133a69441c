-- The cause of a failed unit, and when it last failed.
ALTER TABLE redrive.runs ADD COLUMN error_code text, ADD COLUMN fingerprint text COLLATE "C",
    ADD COLUMN last_failure_at timestamptz;
ALTER TABLE redrive.items ADD COLUMN error_class text, ADD COLUMN error_code text,
    ADD COLUMN fingerprint text COLLATE "C", ADD COLUMN last_failure_at timestamptz;
ALTER TABLE redrive.samples ADD COLUMN last_failure_at timestamptz,
    ALTER COLUMN fingerprint TYPE text COLLATE "C";

-- The last failure of a partition. The columns of partition_state are fixed.
CREATE TABLE redrive.partition_failures (
    partition_id bigint PRIMARY KEY REFERENCES redrive.partition_state (id),
    class        text NOT NULL,
    code         text NOT NULL,
    fingerprint  text COLLATE "C" NOT NULL,
    failed_at    timestamptz NOT NULL
);

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

UPDATE redrive.runs SET (error_code, fingerprint, last_failure_at) = (
    SELECT code, fingerprint, ended_at FROM redrive.attempts
    WHERE kind = 'run' AND unit_id = runs.id AND stage = '' AND attempt = runs.attempts
) WHERE status = 'error';
UPDATE redrive.items SET (error_class, error_code, fingerprint, last_failure_at) = (
    SELECT class, code, fingerprint, ended_at FROM redrive.attempts
    WHERE kind = 'item' AND unit_id = items.id AND stage = '' AND attempt = items.last_attempt
) WHERE status = 'pending' OR status = 'upload_giveup';
UPDATE redrive.samples SET last_failure_at = last_attempt_at WHERE fingerprint IS NOT NULL;
INSERT INTO redrive.partition_failures (partition_id, class, code, fingerprint, failed_at)
SELECT DISTINCT ON (unit_id) unit_id, class, code, fingerprint, ended_at FROM redrive.attempts
WHERE kind = 'partition' AND class IS NOT NULL AND code IS NOT NULL AND fingerprint IS NOT NULL
ORDER BY unit_id, attempt DESC;
-- Lines of a source that are no samples have no attempts.
CREATE TEMPORARY TABLE failures ON COMMIT DROP AS
SELECT
    kind, unit_id, fingerprint, class, code, message, ended_at AS at,
    CASE kind
        WHEN 'run' THEN (SELECT queue FROM redrive.runs WHERE id = unit_id)
        WHEN 'item' THEN (SELECT upload FROM redrive.items WHERE id = unit_id)
        WHEN 'partition' THEN (SELECT source FROM redrive.partition_state WHERE id = unit_id)
        ELSE (
            SELECT run.pipeline || '/' || attempts.stage FROM redrive.samples AS sample, redrive.pipeline_runs AS run
            WHERE sample.id = unit_id AND run.id = sample.run_id
        )
    END AS place
FROM redrive.attempts WHERE fingerprint IS NOT NULL
UNION ALL
SELECT
    'sample', sample.id, fingerprint, error_class, error_code, error_message, last_attempt_at,
    run.pipeline || '/source'
FROM redrive.samples AS sample, redrive.pipeline_runs AS run
WHERE sample.fingerprint IS NOT NULL AND sample.data IS NULL AND run.id = sample.run_id;
INSERT INTO redrive.causes (fingerprint, class, code, message, first_at)
SELECT DISTINCT ON (fingerprint)
    fingerprint, coalesce(class, ''), coalesce(code, ''), coalesce(message, ''), at
FROM pg_temp.failures WHERE at IS NOT NULL ORDER BY fingerprint, at;
INSERT INTO redrive.cause_hours (hour, fingerprint, kind, place, attempts, last_at, unit_id)
SELECT
    date_trunc('hour', at, 'UTC'), fingerprint, kind, coalesce(place, ''), count(*), max(at),
    (array_agg(unit_id ORDER BY at DESC))[1]
FROM pg_temp.failures WHERE at IS NOT NULL
GROUP BY date_trunc('hour', at, 'UTC'), fingerprint, kind, coalesce(place, '');

-- Units by their cause: those that wait or are stuck.
CREATE INDEX runs_cause ON redrive.runs (fingerprint, id) INCLUDE (next_retry_at) WHERE status = 'error';
CREATE INDEX runs_open ON redrive.runs (id) WHERE status = 'error';
CREATE INDEX runs_not_passed ON redrive.runs (status, id) WHERE status IN ('needs_review', 'failed', 'cancelled');
CREATE INDEX items_cause ON redrive.items (fingerprint, id) INCLUDE (status) WHERE fingerprint IS NOT NULL;
CREATE INDEX items_open ON redrive.items (id) WHERE fingerprint IS NOT NULL;
CREATE INDEX samples_cause ON redrive.samples (fingerprint, id) INCLUDE (status, next_retry_at, run_id)
    WHERE fingerprint IS NOT NULL;
CREATE INDEX partition_failures_cause ON redrive.partition_failures (fingerprint, partition_id);
CREATE INDEX cause_hours_cause ON redrive.cause_hours (fingerprint, hour);
