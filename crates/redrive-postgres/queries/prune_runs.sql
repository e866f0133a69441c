-- Removes runs that are as they were exported (:id, :attempts, :epoch), if prunable_runs still finds them,
-- and their rows of the ledger. Returns both numbers. For the LIMIT see finish_runs.
WITH removed AS (
    DELETE FROM redrive.runs USING (
        SELECT * FROM unnest(:id::bigint[], :attempts::bigint[], :epoch::bigint[])
            AS named (id, attempts, epoch)
        ORDER BY id LIMIT cardinality(:id)
    ) AS named
    WHERE runs.id = named.id AND runs.attempts = named.attempts AND runs.lease_epoch = named.epoch
        AND submitted_at < :before AND (:queue::text IS NULL OR queue = :queue)
        AND (
            status = 'passed' OR status = 'needs_review' OR status = 'failed' OR status = 'cancelled'
            OR status = 'error' AND next_retry_at IS NULL
        )
        AND NOT EXISTS (
            SELECT FROM redrive.attempts
            WHERE attempts.kind = 'run' AND attempts.unit_id = runs.id AND attempts.ended_at >= :before
        )
        AND NOT EXISTS (
            SELECT FROM redrive.journal
            WHERE hashtextextended(unit, 0) = hashtextextended('run:' || runs.id, 0)
                AND unit = 'run:' || runs.id AND at >= :before
        )
    RETURNING runs.id
),
removed_attempts AS (
    DELETE FROM redrive.attempts USING removed
    WHERE attempts.kind = 'run' AND attempts.unit_id = removed.id
    RETURNING attempts.id
)
SELECT (SELECT count(*) FROM removed), (SELECT count(*) FROM removed_attempts)
