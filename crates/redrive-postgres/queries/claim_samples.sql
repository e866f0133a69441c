-- Of the runs of a pipeline ($1) with the same stages ($2), or of one of them ($3), that go on, the oldest
-- first; at one stage ($4). In each run what is due ($8), the longest waiting first, and then what is
-- ready, by id; what other claims hold at the moment is passed over (SQLite has one writer and locks
-- nothing, and takes a run at a time). Nothing is sorted, so that the LIMIT ends the search and no more
-- is locked than is taken. Runs and what is ready are stretches of their indexes, and in their order:
-- with an equality the planner might as well go along all of them by id. What is locked is found again by its place in the table, and the last LIMIT
-- limits nothing: see finish_runs.
WITH live AS MATERIALIZED (
    SELECT id FROM redrive.pipeline_runs
    WHERE pipeline BETWEEN $1 AND $1 AND stages = $2 AND status = 'running'
        AND ($3::bigint IS NULL OR id = $3)
    ORDER BY pipeline, id
),
locked AS MATERIALIZED (
    SELECT taken.tid, taken.due
    FROM live
    CROSS JOIN LATERAL (
        SELECT tid, true AS due FROM (
            SELECT ctid AS tid FROM redrive.samples
            WHERE run_id = live.id AND claim_stage = $4 AND next_retry_at <= $8
            ORDER BY next_retry_at LIMIT $5::bigint
            FOR UPDATE SKIP LOCKED
        ) AS waiting
        UNION ALL
        SELECT tid, false FROM (
            SELECT ctid AS tid FROM redrive.samples
            WHERE (run_id, claim_stage) >= (live.id, $4)
                AND (run_id, claim_stage) <= (live.id, $4)
                AND status = 'pending' AND next_retry_at IS NULL AND lease_owner IS NULL
            ORDER BY run_id, claim_stage, id LIMIT $5::bigint
            FOR UPDATE SKIP LOCKED
        ) AS ready
    ) AS taken
    LIMIT $5::bigint
)
UPDATE redrive.samples AS sample SET
    lease_owner = $6, lease_epoch = sample.lease_epoch + 1, lease_until = $7, next_retry_at = NULL
FROM (SELECT * FROM locked LIMIT $5::bigint) AS few WHERE sample.ctid = few.tid
RETURNING few.due, sample.id, sample.run_id, sample.data, sample.attempts, sample.lease_epoch,
    sample.retry_count, sample.deferrals, sample.first_attempt_at
