-- Many runs, with their rows of ledger and journal, in one query. A run that is no longer held under this
-- epoch stays unchanged and gets no rows. Returns the places in the batch that applied, and for runs that are
-- ready again when they were submitted. SQLite takes one run at a time, with three statements.
--
-- Rows are found by id only; epoch and status are compared on the row. The LIMIT changes no result: it makes
-- the planner expect one row instead of ten. A plan is kept until statistics change, and for ten rows of a
-- small table the planner would read the whole table, also when the table has grown.
WITH finished AS (
    UPDATE redrive.runs AS run SET
        status = given.status, attempts = given.attempt, retry_count = given.retry_count,
        deferrals = given.deferrals, next_retry_at = given.next_retry_at,
        first_attempt_at = given.first_attempt_at, error_class = given.error_class,
        error_code = given.code, error_message = given.error_message,
        fingerprint = given.fingerprint,
        last_failure_at = CASE WHEN given.class IS NULL THEN run.last_failure_at ELSE given.ended_at END,
        result = given.result, ready = given.ready,
        due_at = given.due_at, lease_owner = NULL, lease_until = NULL
    FROM (SELECT * FROM unnest(
        :id::bigint[], :epoch::bigint[], :status::text[], :attempt::bigint[],
        :retry_count::bigint[], :deferrals::bigint[], :next_retry_at::timestamptz[],
        :first_attempt_at::timestamptz[], :error_class::text[], :error_message::text[],
        :result::text[], :ready::boolean[], :due_at::timestamptz[], :counted::boolean[],
        :started_at::timestamptz[], :ended_at::timestamptz[], :outcome::text[], :class::text[],
        :code::text[], :message::text[], :fingerprint::text[], :cause::text[], :delay_us::bigint[],
        :worker::text[], :asked_us::bigint[]
    ) WITH ORDINALITY AS given (
        id, epoch, status, attempt, retry_count, deferrals, next_retry_at, first_attempt_at,
        error_class, error_message, result, ready, due_at, counted, started_at, ended_at, outcome,
        class, code, message, fingerprint, cause, delay_us, worker, asked_us, place
    ) LIMIT cardinality(:id)) AS given
    WHERE run.id = given.id AND run.lease_epoch = given.epoch AND run.status = 'processing'
    RETURNING given.*, CASE WHEN given.ready THEN run.submitted_at END AS ready_since
),
ledger AS (
    INSERT INTO redrive.attempts (
        kind, unit_id, attempt, counted, started_at, ended_at, outcome, class, code, message,
        fingerprint, cause, delay_us, worker, asked_us
    )
    SELECT
        'run', id, attempt, counted, started_at, ended_at, outcome, class, code, message,
        fingerprint, cause, delay_us, worker, asked_us
    FROM finished ORDER BY place
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key
    FROM unnest(
        :finish_place::bigint[], :at::timestamptz[], :actor::text[], :action::text[],
        :unit::text[], :filter::text[], :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS entry
        (finish_place, at, actor, action, unit, filter, details, dedupe_key, place)
    -- IS TRUE makes this a lookup in a hash table. As a join, with hash joins off, the planner would
    -- compare every entry with every run.
    WHERE (finish_place IN (SELECT place FROM finished)) IS TRUE
    ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place, ready_since FROM finished
