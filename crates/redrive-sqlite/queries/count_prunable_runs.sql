-- The number of runs that prunable_runs finds.
SELECT count(*) FROM runs
WHERE submitted_at < ?1 AND (?2 IS NULL OR queue = ?2)
    AND (
        status = 'passed' OR status = 'needs_review' OR status = 'failed' OR status = 'cancelled'
        OR status = 'error' AND next_retry_at IS NULL
    )
    AND NOT EXISTS (
        SELECT 1 FROM attempts
        WHERE attempts.kind = 'run' AND attempts.unit_id = runs.id AND attempts.ended_at >= ?1
    )
    AND NOT EXISTS (
        SELECT 1 FROM journal WHERE journal.unit = 'run:' || runs.id AND journal.at >= ?1
    )
