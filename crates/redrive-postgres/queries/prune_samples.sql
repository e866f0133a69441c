-- Removes samples that are as they were exported (:id, :attempts, :epoch), if prunable_samples still finds
-- them, their rows of the ledger, and their logs; their runs count the removed samples. Returns both numbers. Locks
-- samples first, then runs, both in the order of their ids: see lock_pipeline_runs. For the LIMIT see
-- finish_runs.
WITH removed AS (
    DELETE FROM redrive.samples USING (
        SELECT * FROM unnest(:id::bigint[], :attempts::bigint[], :epoch::bigint[])
            AS named (id, attempts, epoch)
        ORDER BY id LIMIT cardinality(:id)
    ) AS named, redrive.pipeline_runs AS run
    WHERE samples.id = named.id AND samples.attempts = named.attempts
        AND samples.lease_epoch = named.epoch AND run.id = samples.run_id
        AND samples.status <> 'pending'
        AND (samples.last_attempt_at IS NULL OR samples.last_attempt_at < :before)
        AND run.status <> 'running' AND run.ended_at < :before
        AND (:pipeline::text IS NULL OR run.pipeline = :pipeline)
    RETURNING samples.id, samples.run_id, samples.status
),
removed_attempts AS (
    DELETE FROM redrive.attempts USING removed
    WHERE attempts.kind = 'sample' AND attempts.unit_id = removed.id
    RETURNING attempts.id
),
removed_logs AS (
    DELETE FROM redrive.attempt_logs USING removed
    WHERE attempt_logs.unit_id = removed.id AND attempt_logs.kind = 'sample'
),
counted AS (
    UPDATE redrive.pipeline_runs AS run SET
        pruned_succeeded = run.pruned_succeeded + sum.succeeded,
        pruned_skipped = run.pruned_skipped + sum.skipped,
        pruned_dlq = run.pruned_dlq + sum.dlq
    FROM (
        SELECT
            run_id, count(*) FILTER (WHERE status = 'succeeded') AS succeeded,
            count(*) FILTER (WHERE status = 'skipped') AS skipped,
            count(*) FILTER (WHERE status = 'dlq') AS dlq
        FROM removed GROUP BY run_id ORDER BY run_id
    ) AS sum
    WHERE run.id = sum.run_id
)
SELECT (SELECT count(*) FROM removed), (SELECT count(*) FROM removed_attempts)
