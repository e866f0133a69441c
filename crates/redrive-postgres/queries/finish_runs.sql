-- Many runs, with their rows of ledger and journal, in one query: those that pass (:pass_…), which leave their claim and
-- enter the ledger together, and the others (:id …), whose states are written. A pass after failures takes what is known of
-- the run from its state, and removes the state. A run that is no longer held under this epoch stays unchanged and gets no
-- rows. Returns the places in the batch that applied: those that passed in a row for each block and one for the rest, and a row
-- for each of the others, with its queue and, if the run is ready again, the time of its submission. SQLite takes one run at a
-- time, with three statements.
--
-- Claims are found by their epoch and their block of 256 ids, and stay locked; runs are found by id. All ids that have ended are
-- in :ended_id by epoch and id. If those of a block are what the claim has left, the block is whole: the claim is deleted,
-- and the first attempts that passed, which precede others in :pass_…, enter the ledger as slices of the arrays. Runs of
-- other blocks are looked up one by one. (:pass_result has nothing if no run has a result, and :pass_worker if all have one.)
--
-- IN … IS TRUE is a lookup in a hash table. As a join, with hash joins off, the planner would compare every run with every
-- other. The LIMIT changes no result: it makes the planner expect one row instead of ten. A plan is kept until statistics
-- change, and for ten rows of a small table the planner would read the whole table, also when the table has grown.
--
-- A state is found by a subquery and deleted by its ctid: a state of a held run does not change, and a plan that was made
-- while there were no states does not read all of them. Aggregates need no order: all arrays of a group have the order
-- of its rows.
WITH block AS MATERIALIZED (
    SELECT * FROM unnest(
        :block_epoch::bigint[], :block::bigint[], :first_at::int[], :last_at::int[], :first_pass::int[], :last_pass::int[]
    ) AS given (block_epoch, block, first_at, last_at, first_pass, last_pass)
    ORDER BY block_epoch, block LIMIT cardinality(:block)
),
held AS MATERIALIZED (
    SELECT claim.id, claim.run_ids, block.*, claim.run_ids = (:ended_id::bigint[])[first_at : last_at] AS is_whole
    FROM block CROSS JOIN LATERAL (
        SELECT id, run_ids FROM redrive.run_claims
        WHERE run_claims.epoch = block_epoch AND first_run BETWEEN block.block << 8 AND (block.block << 8) + 255
        ORDER BY first_run, id FOR UPDATE
    ) AS claim
),
held_run AS MATERIALIZED (
    SELECT held.id AS claim_id, held.block_epoch AS epoch, run.id
    FROM held CROSS JOIN LATERAL unnest(held.run_ids) AS run (id) WHERE NOT is_whole
),
pass AS MATERIALIZED (
    SELECT place, id, epoch, attempt, started_at, ended_at, coalesce(worker, :first_worker::text) AS worker, result FROM unnest(
        :pass_place::bigint[], :pass_id::bigint[], :pass_epoch::bigint[], :pass_attempt::bigint[],
        :pass_started_at::timestamptz[], :pass_ended_at::timestamptz[], :pass_worker::text[], :pass_result::text[]
    ) AS given (place, id, epoch, attempt, started_at, ended_at, worker, result)
    WHERE ((SELECT EXISTS (SELECT FROM held_run)) OR (:pass_attempt)[cardinality(:pass_attempt)] > 1) AND (
        ((id, epoch) IN (SELECT id, epoch FROM held_run)) IS TRUE
        OR attempt > 1 AND ((epoch, id >> 8) IN (SELECT block_epoch, block FROM held WHERE is_whole)) IS TRUE
    )
),
other AS MATERIALIZED (
    SELECT given.*, run.queue, run.category, run.submitted_at
    FROM (
        SELECT * FROM unnest(
            :place::bigint[], :id::bigint[], :epoch::bigint[], :status::text[], :attempt::bigint[],
            :retry_count::bigint[], :deferrals::bigint[], :next_retry_at::timestamptz[],
            :first_attempt_at::timestamptz[], :error_class::text[], :error_message::text[],
            :result::text[], :ready::boolean[], :due_at::timestamptz[], :counted::boolean[],
            :started_at::timestamptz[], :ended_at::timestamptz[], :outcome::text[], :class::text[],
            :code::text[], :message::text[], :fingerprint::text[], :cause::text[], :delay_us::bigint[],
            :worker::text[], :asked_us::bigint[]
        ) AS given (
            place, id, epoch, status, attempt, retry_count, deferrals, next_retry_at, first_attempt_at,
            error_class, error_message, result, ready, due_at, counted, started_at, ended_at, outcome,
            class, code, message, fingerprint, cause, delay_us, worker, asked_us
        )
        WHERE ((id, epoch) IN (SELECT id, epoch FROM held_run)) IS TRUE
            OR ((epoch, id >> 8) IN (SELECT block_epoch, block FROM held WHERE is_whole)) IS TRUE
        LIMIT cardinality(:id)
    ) AS given
    JOIN redrive.runs AS run ON run.id = given.id
),
rest AS MATERIALIZED (
    SELECT claim_id, array_agg(id) AS run_ids FROM held_run
    WHERE ((id, epoch) IN (SELECT id, epoch FROM pass UNION ALL SELECT id, epoch FROM other)) IS NOT TRUE
    GROUP BY claim_id
),
emptied AS (
    DELETE FROM redrive.run_claims AS claim USING (
        SELECT id FROM held WHERE (id IN (SELECT claim_id FROM rest)) IS NOT TRUE
        LIMIT (SELECT count(*) FROM held)
    ) AS ended
    WHERE claim.id = ended.id
),
reduced AS (
    UPDATE redrive.run_claims AS claim SET run_ids = rest.run_ids
    FROM (SELECT * FROM rest LIMIT (SELECT count(*) FROM held)) AS rest
    WHERE claim.id = rest.claim_id AND cardinality(claim.run_ids) > cardinality(rest.run_ids)
),
recovered AS MATERIALIZED (
    SELECT given.*, state.tid, state.attempts_at_reset, state.first_attempt_at, state.last_failure_at
    FROM (SELECT * FROM pass WHERE attempt > 1) AS given
    LEFT JOIN LATERAL (
        SELECT ctid AS tid, attempts_at_reset, first_attempt_at, last_failure_at FROM redrive.run_states
        WHERE run_states.id = given.id LIMIT 1
    ) AS state ON true
),
forgotten AS (
    DELETE FROM redrive.run_states AS state
    USING (SELECT tid FROM recovered LIMIT cardinality(:pass_id)) AS few WHERE state.ctid = few.tid
),
passed AS (
    INSERT INTO redrive.run_passes (
        id, block, epoch, worker, run_ids, started_at, ended_at, results, attempts, attempts_at_reset, first_attempt_at,
        last_failure_at
    )
    SELECT
        -- As many numbers as attempts, so that numbers tell how many attempts there are.
        (SELECT max(nextval('redrive.attempts_id_seq')) FROM generate_series(first_pass, last_pass)), block, block_epoch,
        coalesce((:pass_worker)[first_pass], :first_worker), (:pass_id)[first_pass : last_pass],
        (:pass_started_at)[first_pass : last_pass], (:pass_ended_at)[first_pass : last_pass],
        nullif((:pass_result)[first_pass : last_pass], '{}'), NULL::bigint[], NULL::bigint[], NULL::timestamptz[],
        NULL::timestamptz[]
    FROM held WHERE is_whole AND first_pass <= last_pass
    UNION ALL
    SELECT
        max(nextval('redrive.attempts_id_seq')), id >> 8, epoch, worker, array_agg(id), array_agg(started_at),
        array_agg(ended_at), CASE WHEN count(result) > 0 THEN array_agg(result) END, NULL, NULL, NULL, NULL
    FROM pass WHERE attempt = 1 GROUP BY id >> 8, epoch, worker
    UNION ALL
    SELECT
        max(nextval('redrive.attempts_id_seq')), id >> 8, epoch, worker, array_agg(id), array_agg(started_at),
        array_agg(ended_at), CASE WHEN count(result) > 0 THEN array_agg(result) END, array_agg(attempt),
        array_agg(coalesce(attempts_at_reset, 0)), array_agg(coalesce(first_attempt_at, started_at)),
        array_agg(last_failure_at)
    FROM recovered GROUP BY id >> 8, epoch, worker
),
stated AS (
    INSERT INTO redrive.run_states AS state (
        id, queue, category, submitted_at, status, waits, attempts, retry_count, deferrals, next_retry_at,
        first_attempt_at, last_failure_at, lease_epoch, error_class, error_code, error_message, fingerprint, result
    )
    SELECT
        id, queue, category, submitted_at, status, next_retry_at IS NOT NULL, attempt, retry_count, deferrals,
        next_retry_at, first_attempt_at, CASE WHEN class IS NOT NULL THEN ended_at END, epoch, error_class, code,
        error_message, fingerprint, result
    FROM other
    ON CONFLICT (id) DO UPDATE SET
        status = excluded.status, waits = excluded.waits, attempts = excluded.attempts,
        retry_count = excluded.retry_count, deferrals = excluded.deferrals, next_retry_at = excluded.next_retry_at,
        first_attempt_at = excluded.first_attempt_at,
        last_failure_at = coalesce(excluded.last_failure_at, state.last_failure_at),
        lease_epoch = excluded.lease_epoch, error_class = excluded.error_class, error_code = excluded.error_code,
        error_message = excluded.error_message, fingerprint = excluded.fingerprint, result = excluded.result
),
ready_again AS (
    INSERT INTO redrive.ready_runs (queue, category, submitted_at, id, fresh, has_state)
    SELECT queue, category, submitted_at, id, false, true FROM other WHERE ready
),
due_again AS (
    INSERT INTO redrive.due_runs (queue, due_at, id, category, submitted_at, fresh)
    SELECT queue, due_at, id, category, submitted_at, false FROM other WHERE due_at IS NOT NULL
),
ledger AS (
    INSERT INTO redrive.attempts (
        kind, unit_id, attempt, counted, started_at, ended_at, outcome, class, code, message,
        fingerprint, cause, delay_us, worker, asked_us
    )
    SELECT
        'run', id, attempt, counted, started_at, ended_at, outcome, class, code, message,
        fingerprint, cause, delay_us, worker, asked_us
    FROM other ORDER BY place
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key
    FROM unnest(
        :finish_place::bigint[], :at::timestamptz[], :actor::text[], :action::text[],
        :unit::text[], :filter::text[], :details::text[], :dedupe_key::text[]
    ) WITH ORDINALITY AS entry
        (finish_place, at, actor, action, unit, filter, details, dedupe_key, number)
    WHERE (finish_place IN (SELECT place FROM other)) IS TRUE
    ORDER BY number
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT coalesce(array_agg(place), '{}'), NULL::timestamptz, NULL::text FROM pass
UNION ALL
SELECT (:pass_place)[first_pass : last_pass], NULL, NULL FROM held WHERE is_whole
UNION ALL
SELECT ARRAY[place], CASE WHEN ready THEN submitted_at END, queue FROM other
