-- Claims runs of the named categories (:categories), of each at most so many (:most); reads no other category, and claims
-- nothing of a paused queue. For shares and the starting position see claim_runs_any.
WITH allowed AS MATERIALIZED (
    SELECT category, least(min(most), :limit::bigint) AS most
    FROM unnest(:categories::text[], :most::bigint[]) AS named (category, most)
    WHERE NOT EXISTS (SELECT FROM redrive.paused_queues WHERE queue = :queue)
    GROUP BY category
),
start AS MATERIALIZED (
    SELECT least(:from_submitted_at::timestamptz, arrived) AS submitted_at,
        CASE WHEN arrived <= :from_submitted_at THEN -9223372036854775807 ELSE :from_id::bigint END AS id
    FROM (
        SELECT nullif(current_setting('redrive.oldest_arrival', true), '')::timestamptz
    ) AS just (arrived)
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
            ORDER BY submitted_at, id LIMIT allowed.most
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
            WHEN :to_the_limit::boolean OR (SELECT count(*) FROM allowed) = 1 THEN allowed.most
            ELSE coalesce((SELECT runs FROM share WHERE share.category = allowed.category), 0)
        END
        FOR UPDATE SKIP LOCKED
    ) AS run
    ORDER BY submitted_at, id LIMIT :limit::bigint
),
taken AS (
    DELETE FROM redrive.ready_runs AS ready
    USING (SELECT tid FROM locked LIMIT :limit::bigint) AS few WHERE ready.ctid = few.tid
    RETURNING ready.id, ready.has_state
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
    run.id, run.category, run.payload, run.submitted_at, coalesce(state.attempts, 0), (SELECT epoch FROM claim),
    coalesce(state.retry_count, 0), coalesce(state.deferrals, 0), state.first_attempt_at, (SELECT id FROM oldest)
FROM (SELECT id, has_state FROM taken LIMIT :limit::bigint) AS taken JOIN redrive.runs AS run ON run.id = taken.id
LEFT JOIN LATERAL (
    SELECT * FROM redrive.run_states WHERE taken.has_state AND run_states.id = taken.id LIMIT 1
) AS state ON true
