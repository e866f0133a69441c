-- Counts failed attempts by cause, hour and place, in the transaction that wrote them to the ledger. An attempt that
-- the transaction did not write is stale and not counted, if that is to be looked up (:in_ledger): dead lines of a source
-- are no attempts, and a finish of runs knows which attempts it wrote, and their places. A row may stand for several
-- attempts (:number). All transactions lock causes in one order.
WITH failed AS (
    SELECT given.*, date_trunc('hour', ended_at, 'UTC') AS hour, coalesce(given.place, CASE given.kind
        WHEN 'run' THEN (SELECT queue FROM redrive.runs WHERE id = given.unit_id)
        WHEN 'item' THEN (SELECT upload FROM redrive.items WHERE id = given.unit_id)
        WHEN 'partition' THEN (SELECT source FROM redrive.partition_state WHERE id = given.unit_id)
        ELSE (
            SELECT run.pipeline || '/' || given.stage
            FROM redrive.samples AS sample, redrive.pipeline_runs AS run
            WHERE sample.id = given.unit_id AND run.id = sample.run_id
        )
    END, '') AS unit_place
    FROM (SELECT * FROM unnest(
        :kind::text[], :unit_id::bigint[], :stage::text[], :class::text[], :code::text[],
        :message::text[], :fingerprint::text[], :started_at::timestamptz[],
        :ended_at::timestamptz[], :worker::text[], :place::text[], :number::bigint[]
    ) AS given (
        kind, unit_id, stage, class, code, message, fingerprint, started_at, ended_at, worker, place, number
    ) LIMIT cardinality(:unit_id)) AS given
    WHERE NOT :in_ledger::boolean OR EXISTS (
        SELECT FROM redrive.attempts AS attempt
        WHERE attempt.unit_id = given.unit_id AND attempt.kind = given.kind
            AND attempt.stage = given.stage AND attempt.fingerprint = given.fingerprint
            AND attempt.started_at = given.started_at AND attempt.worker = given.worker
            AND attempt.xmin = pg_current_xact_id()::xid
    )
),
first AS (SELECT DISTINCT ON (fingerprint) * FROM failed ORDER BY fingerprint, ended_at),
-- An attempt that began before a mark says nothing about a repair.
last AS (SELECT DISTINCT ON (fingerprint) * FROM failed ORDER BY fingerprint, started_at DESC),
added AS (
    -- The first message of a cause stays.
    INSERT INTO redrive.causes (fingerprint, class, code, message, first_at)
    SELECT fingerprint, class, code, message, ended_at FROM first ORDER BY fingerprint
    ON CONFLICT ON CONSTRAINT causes_fingerprint DO NOTHING
),
fixed AS (
    SELECT cause.id FROM redrive.causes AS cause
    WHERE cause.fingerprint IN (SELECT fingerprint FROM last)
        AND cause.mark = 'fixed' AND cause.returned_at IS NULL
    ORDER BY cause.fingerprint FOR UPDATE
),
returned AS (
    UPDATE redrive.causes AS cause SET returned_at = last.ended_at
    FROM last
    WHERE cause.fingerprint = last.fingerprint AND cause.id IN (SELECT id FROM fixed)
        AND cause.mark = 'fixed' AND cause.returned_at IS NULL AND cause.marked_at < last.started_at
    RETURNING last.fingerprint, last.kind, last.unit_id, last.message, last.ended_at, last.worker
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, details)
    SELECT ended_at, worker, 'cause.return', 'cause:' || fingerprint, json_build_object(
        'cause', fingerprint, 'kind', kind, 'id', unit_id, 'message', message
    )::text
    FROM returned
),
-- The columns of partition_state are fixed.
partitions AS (
    INSERT INTO redrive.partition_failures (partition_id, class, code, fingerprint, failed_at)
    SELECT DISTINCT ON (unit_id) unit_id, class, code, fingerprint, ended_at
    FROM failed WHERE kind = 'partition' ORDER BY unit_id, ended_at DESC
    ON CONFLICT (partition_id) DO UPDATE SET
        class = excluded.class, code = excluded.code, fingerprint = excluded.fingerprint,
        failed_at = excluded.failed_at
)
INSERT INTO redrive.cause_hours AS hours (hour, fingerprint, kind, place, attempts, last_at, unit_id)
SELECT
    hour, fingerprint, kind, unit_place, sum(number), max(ended_at),
    (array_agg(unit_id ORDER BY ended_at DESC))[1]
FROM failed
GROUP BY hour, fingerprint, kind, unit_place
ORDER BY hour, fingerprint, kind, unit_place
ON CONFLICT ON CONSTRAINT cause_hours_key DO UPDATE SET
    attempts = hours.attempts + excluded.attempts,
    last_at = greatest(hours.last_at, excluded.last_at),
    unit_id = CASE WHEN excluded.last_at < hours.last_at THEN hours.unit_id ELSE excluded.unit_id END
