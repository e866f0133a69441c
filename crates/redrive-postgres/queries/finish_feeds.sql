-- Many sources. Returns the places in the batch that applied, with their runs. Locks runs in the order of
-- their ids: see lock_pipeline_runs. For the LIMIT see finish_runs.
UPDATE redrive.pipeline_runs AS run SET lease_owner = NULL, lease_until = NULL
FROM (
    SELECT * FROM unnest(:id::bigint[], :epoch::bigint[]) WITH ORDINALITY AS given (id, epoch, place)
    ORDER BY id LIMIT cardinality(:id)
) AS given
WHERE run.id = given.id AND run.lease_epoch = given.epoch AND run.lease_owner IS NOT NULL
RETURNING
    given.place, run.id, run.pipeline, run.stages, run.rules, run.read_ahead, run.source,
    run.source_lines, run.source_bytes, run.source_check, run.status, run.total, run.succeeded,
    run.skipped, run.dlq, run.source_done, run.budget_processed, run.budget_failed, run.started_at,
    run.started_by, run.ended_at, run.stop_reason, run.lease_owner, run.lease_until, run.lease_epoch,
    run.pruned_succeeded, run.pruned_skipped, run.pruned_dlq
