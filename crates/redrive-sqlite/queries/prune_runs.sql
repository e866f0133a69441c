-- A run that is unchanged since it was archived (?3 to ?5), if prunable_runs still finds it.
DELETE FROM runs
WHERE id = ?3 AND attempts = ?4 AND lease_epoch = ?5 AND submitted_at < ?1 AND (?2 IS NULL OR queue = ?2)
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
