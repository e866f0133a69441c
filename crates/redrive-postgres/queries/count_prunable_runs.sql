-- How many runs prunable_runs finds.
SELECT count(*) FROM redrive.runs
WHERE submitted_at < $1 AND ($2::text IS NULL OR queue = $2)
    AND (
        status = 'passed' OR status = 'needs_review' OR status = 'failed' OR status = 'cancelled'
        OR status = 'error' AND next_retry_at IS NULL
    )
    AND NOT EXISTS (
        SELECT FROM redrive.attempts
        WHERE attempts.kind = 'run' AND attempts.unit_id = runs.id AND attempts.ended_at >= $1
    )
    AND NOT EXISTS (
        SELECT FROM redrive.journal
        WHERE hashtextextended(unit, 0) = hashtextextended('run:' || runs.id, 0)
            AND unit = 'run:' || runs.id AND at >= $1
    )
