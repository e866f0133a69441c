-- Claims runs of the named categories (:categories); reads no other category, and claims nothing of a paused
-- queue. For shares and the starting position see claim_runs_any.
WITH allowed AS MATERIALIZED (
    SELECT DISTINCT category FROM unnest(:categories::text[]) AS named (category)
    WHERE NOT EXISTS (SELECT FROM redrive.paused_queues WHERE queue = :queue)
),
start AS MATERIALIZED (
    SELECT least(:from_submitted_at::timestamptz, promoted) AS submitted_at,
        CASE WHEN promoted <= :from_submitted_at THEN -9223372036854775807 ELSE :from_id::bigint END AS id
    FROM (
        SELECT nullif(current_setting('redrive.oldest_promoted', true), '')::timestamptz
    ) AS just (promoted)
),
oldest AS MATERIALIZED (
    SELECT submitted_at, id FROM allowed, LATERAL (
        SELECT submitted_at, id FROM redrive.ready_runs
        WHERE queue = :queue AND category = allowed.category
            AND (submitted_at, id) >= ((SELECT submitted_at FROM start), (SELECT id FROM start))
        ORDER BY submitted_at, id LIMIT 1
    ) AS run
    ORDER BY submitted_at, id LIMIT 1
),
share AS MATERIALIZED (
    SELECT category, count(*) AS runs FROM (
        SELECT category FROM allowed, LATERAL (
            SELECT submitted_at, id FROM redrive.ready_runs
            WHERE queue = :queue AND category = allowed.category
                AND (submitted_at, id) >= ((SELECT submitted_at FROM oldest), (SELECT id FROM oldest))
            ORDER BY submitted_at, id LIMIT :limit::bigint
        ) AS run
        ORDER BY submitted_at, id LIMIT :limit::bigint
    ) AS taken
    GROUP BY category
),
locked AS MATERIALIZED (
    SELECT tid FROM allowed, LATERAL (
        SELECT ctid AS tid, submitted_at, id FROM redrive.ready_runs
        WHERE queue = :queue AND category = allowed.category
            AND (submitted_at, id) >= ((SELECT submitted_at FROM oldest), (SELECT id FROM oldest))
        ORDER BY submitted_at, id
        LIMIT CASE
            WHEN :to_the_limit::boolean OR (SELECT count(*) FROM allowed) = 1 THEN :limit::bigint
            ELSE coalesce((SELECT runs FROM share WHERE share.category = allowed.category), 0)
        END
        FOR UPDATE SKIP LOCKED
    ) AS run
    ORDER BY submitted_at, id LIMIT :limit::bigint
),
taken AS (
    DELETE FROM redrive.ready_runs AS ready
    USING (SELECT tid FROM locked LIMIT :limit::bigint) AS few WHERE ready.ctid = few.tid
    RETURNING ready.id
),
claim AS MATERIALIZED (
    SELECT nextval('redrive.run_epochs') AS epoch FROM taken LIMIT 1
),
held AS (
    INSERT INTO redrive.run_claims (epoch, queue, owner, lease_until, claimed_at, first_run, last_run, run_ids)
    SELECT
        (SELECT epoch FROM claim), :queue, :owner, :lease_until, :claimed_at, min(id), max(id),
        array_agg(id ORDER BY id)
    FROM taken GROUP BY id >> 8
)
SELECT
    run.id, run.category, run.payload, run.submitted_at, run.attempts, (SELECT epoch FROM claim),
    run.retry_count, run.deferrals, run.first_attempt_at, (SELECT id FROM oldest)
FROM (SELECT id FROM taken LIMIT :limit::bigint) AS taken JOIN redrive.runs AS run ON run.id = taken.id
