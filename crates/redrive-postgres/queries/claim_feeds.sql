-- Sources that nobody reads, of runs of a pipeline ($1) with the same stages ($2), or of one of them ($3),
-- that go on; the oldest first. A run that is locked at the moment is waited for: its counts are being
-- written, which is soon done. BETWEEN: see claim_samples. The last LIMIT limits nothing: see
-- finish_runs.
WITH free AS MATERIALIZED (
    SELECT id FROM redrive.pipeline_runs
    WHERE pipeline BETWEEN $1 AND $1 AND stages = $2 AND status = 'running'
        AND ($3::bigint IS NULL OR id = $3) AND NOT source_done AND lease_owner IS NULL
    ORDER BY pipeline, id LIMIT $4::bigint
    FOR UPDATE
)
UPDATE redrive.pipeline_runs AS run SET
    lease_owner = $5, lease_epoch = run.lease_epoch + 1, lease_until = $6
FROM (SELECT id FROM free LIMIT $4::bigint) AS few WHERE run.id = few.id
RETURNING
    run.id, run.pipeline, run.stages, run.rules, run.read_ahead, run.source, run.source_lines,
    run.source_bytes, run.source_check, run.status, run.total, run.succeeded, run.skipped, run.dlq,
    run.source_done, run.budget_processed, run.budget_failed, run.started_at, run.started_by,
    run.ended_at, run.stop_reason, run.lease_owner, run.lease_until, run.lease_epoch,
    run.pruned_succeeded, run.pruned_skipped, run.pruned_dlq
