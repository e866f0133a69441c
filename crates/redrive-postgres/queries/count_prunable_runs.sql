-- The number of runs that prunable_runs finds.
SELECT count(*) FROM redrive.run_records AS runs
WHERE submitted_at < :before AND (:queue::text IS NULL OR queue = :queue)
    AND (
        status = 'passed' OR status = 'needs_review' OR status = 'failed' OR status = 'cancelled'
        OR status = 'error' AND next_retry_at IS NULL
    )
    AND (passed_at >= :before) IS NOT TRUE
    AND NOT EXISTS (
        SELECT FROM redrive.attempts
        WHERE attempts.kind = 'run' AND attempts.unit_id = runs.id AND attempts.ended_at >= :before
    )
    AND NOT EXISTS (
        SELECT FROM redrive.journal
        WHERE hashtextextended(unit, 0) = hashtextextended('run:' || runs.id, 0)
            AND unit = 'run:' || runs.id AND at >= :before
    )
