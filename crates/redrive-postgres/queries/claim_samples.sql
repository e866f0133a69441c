-- Samples at one stage (:stage), of running runs of a pipeline (:pipeline) with the same stages (:stages), or
-- of one run (:run_id); the oldest run first. In each run the due samples (:now), the longest waiting first,
-- then the ready ones, by id, first those with a key, which have waited at a gate; rows that other claims have locked are skipped (SQLite has one writer, locks
-- nothing, and claims from one run at a time). Nothing is sorted, so the LIMIT ends the search and no further
-- rows are locked. Runs and ready samples are read as ranges of their indexes, in order: for an equality the
-- planner might walk all of them by id. Locked rows are found again by their ctid; for the last LIMIT see
-- finish_runs.
WITH live AS MATERIALIZED (
    SELECT id FROM redrive.pipeline_runs
    WHERE pipeline BETWEEN :pipeline AND :pipeline AND stages = :stages AND status = 'running'
        AND (:run_id::bigint IS NULL OR id = :run_id)
    ORDER BY pipeline, id
),
locked AS MATERIALIZED (
    SELECT taken.tid, taken.due
    FROM live
    CROSS JOIN LATERAL (
        SELECT tid, true AS due FROM (
            SELECT ctid AS tid FROM redrive.samples
            WHERE run_id = live.id AND claim_stage = :stage AND next_retry_at <= :now
            ORDER BY next_retry_at LIMIT :limit::bigint
            FOR UPDATE SKIP LOCKED
        ) AS waiting
        UNION ALL
        SELECT tid, false FROM (
            SELECT ctid AS tid FROM redrive.samples
            WHERE (run_id, claim_stage) >= (live.id, :stage)
                AND (run_id, claim_stage) <= (live.id, :stage)
                AND status = 'pending' AND next_retry_at IS NULL AND lease_owner IS NULL
            ORDER BY run_id, claim_stage, gate_key, id LIMIT :limit::bigint
            FOR UPDATE SKIP LOCKED
        ) AS ready
    ) AS taken
    LIMIT :limit::bigint
)
UPDATE redrive.samples AS sample SET
    lease_owner = :owner, lease_epoch = sample.lease_epoch + 1, lease_until = :lease_until,
    claimed_at = :now, next_retry_at = NULL
FROM (SELECT * FROM locked LIMIT :limit::bigint) AS few WHERE sample.ctid = few.tid
RETURNING few.due, sample.id, sample.run_id, sample.data, sample.attempts, sample.lease_epoch,
    sample.retry_count, sample.deferrals, sample.first_attempt_at
