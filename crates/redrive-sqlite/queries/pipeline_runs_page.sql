SELECT id, pipeline, stages, rules, read_ahead, source, source_lines, source_bytes, source_check, status,
    total, succeeded, skipped, dlq, source_done, budget_processed, budget_failed, started_at, started_by,
    ended_at, stop_reason, lease_owner, lease_until, lease_epoch,
    pruned_succeeded, pruned_skipped, pruned_dlq
FROM pipeline_runs
WHERE id {beyond} ?1 AND {selection}
ORDER BY id {order} LIMIT ?2
