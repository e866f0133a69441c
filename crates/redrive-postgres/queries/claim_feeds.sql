-- Sources without a reader, of running runs of a pipeline (:pipeline) with the same stages (:stages), or of
-- one run (:run_id); the oldest first. Waits for a locked run, because its counts are written soon. For
-- BETWEEN see claim_samples, for the last LIMIT finish_runs.
WITH free AS MATERIALIZED (
    SELECT id FROM redrive.pipeline_runs
    WHERE pipeline BETWEEN :pipeline AND :pipeline AND stages = :stages AND status = 'running'
        AND (:run_id::bigint IS NULL OR id = :run_id) AND NOT source_done AND lease_owner IS NULL
    ORDER BY pipeline, id LIMIT :limit::bigint
    FOR UPDATE
)
UPDATE redrive.pipeline_runs AS run SET
    lease_owner = :owner, lease_epoch = run.lease_epoch + 1, lease_until = :lease_until
FROM (SELECT id FROM free LIMIT :limit::bigint) AS few WHERE run.id = few.id
RETURNING
    run.id, run.pipeline, run.stages, run.rules, run.read_ahead, run.source, run.source_lines,
    run.source_bytes, run.source_check, run.status, run.total, run.succeeded, run.skipped, run.dlq,
    run.source_done, run.budget_processed, run.budget_failed, run.started_at, run.started_by,
    run.ended_at, run.stop_reason, run.lease_owner, run.lease_until, run.lease_epoch,
    run.pruned_succeeded, run.pruned_skipped, run.pruned_dlq
