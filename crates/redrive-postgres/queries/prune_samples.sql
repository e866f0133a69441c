-- Samples that are as they were written down (:id to :epoch), if prunable_samples still finds them, and their
-- rows of the ledger; their runs know how many are gone. How many of each. Samples first, then runs, both
-- in the order of their ids: see lock_pipeline_runs. The LIMIT limits nothing: see finish_runs.
WITH gone AS (
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
forgotten AS (
    DELETE FROM redrive.attempts USING gone
    WHERE attempts.kind = 'sample' AND attempts.unit_id = gone.id
    RETURNING attempts.id
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
        FROM gone GROUP BY run_id ORDER BY run_id
    ) AS sum
    WHERE run.id = sum.run_id
)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM forgotten)
