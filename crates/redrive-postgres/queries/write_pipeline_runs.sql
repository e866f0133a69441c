-- The progress of many runs, locked since they were read. A running run has no end. Returns the runs. For the
-- LIMIT see finish_runs.
UPDATE redrive.pipeline_runs AS run SET
    status = given.status, total = given.total, succeeded = given.succeeded, skipped = given.skipped,
    dlq = given.dlq, source_done = given.source_done, budget_processed = given.budget_processed,
    budget_failed = given.budget_failed,
    ended_at = CASE given.status
        WHEN 'running' THEN NULL ELSE coalesce(given.ended_at, run.ended_at)
    END,
    stop_reason = CASE
        WHEN given.status IN ('aborted', 'cancelled') THEN coalesce(given.stop_reason, run.stop_reason)
    END
FROM (SELECT * FROM unnest(
    :id::bigint[], :status::text[], :total::bigint[], :succeeded::bigint[], :skipped::bigint[],
    :dlq::bigint[], :source_done::boolean[], :budget_processed::bigint[], :budget_failed::bigint[],
    :ended_at::timestamptz[], :stop_reason::text[]
) AS given (
    id, status, total, succeeded, skipped, dlq, source_done, budget_processed, budget_failed, ended_at,
    stop_reason
) LIMIT cardinality(:id)) AS given
WHERE run.id = given.id
RETURNING
    run.id, run.pipeline, run.stages, run.rules, run.read_ahead, run.source, run.source_lines,
    run.source_bytes, run.source_check, run.status, run.total, run.succeeded, run.skipped, run.dlq,
    run.source_done, run.budget_processed, run.budget_failed, run.started_at, run.started_by,
    run.ended_at, run.stop_reason, run.lease_owner, run.lease_until, run.lease_epoch,
    run.pruned_succeeded, run.pruned_skipped, run.pruned_dlq
