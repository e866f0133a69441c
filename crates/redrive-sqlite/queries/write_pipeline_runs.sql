-- The progress of a run. A running run has no end.
UPDATE pipeline_runs SET
    status = ?2, total = ?3, succeeded = ?4, skipped = ?5, dlq = ?6, source_done = ?7,
    budget_processed = ?8, budget_failed = ?9,
    ended_at = CASE ?2 WHEN 'running' THEN NULL ELSE coalesce(?10, ended_at) END,
    stop_reason = CASE WHEN ?2 IN ('aborted', 'cancelled') THEN coalesce(?11, stop_reason) END
WHERE id = ?1
