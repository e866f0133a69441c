-- Sources without a reader, of the served runs (?1, a JSON array), the oldest first. OR FAIL: see
-- claim_runs_in.
UPDATE OR FAIL pipeline_runs SET lease_owner = ?3, lease_epoch = lease_epoch + 1, lease_until = ?4
WHERE id IN (
    SELECT id FROM pipeline_runs
    WHERE id IN (SELECT value FROM json_each(?1)) AND source_done = 0 AND lease_owner IS NULL
    ORDER BY id LIMIT ?2
)
RETURNING id, pipeline, stages, rules, read_ahead, source, source_lines, source_bytes, source_check, status,
    total, succeeded, skipped, dlq, source_done, budget_processed, budget_failed, started_at, started_by,
    ended_at, stop_reason, lease_owner, lease_until, lease_epoch,
    pruned_succeeded, pruned_skipped, pruned_dlq
