-- Runs that are as they were written down ($3 to $5), if prunable_runs still finds them, and their rows of
-- the ledger. How many of each. The LIMIT limits nothing: see finish_runs.
WITH gone AS (
    DELETE FROM redrive.runs USING (
        SELECT * FROM unnest($3::bigint[], $4::bigint[], $5::bigint[]) AS named (id, attempts, epoch)
        ORDER BY id LIMIT cardinality($3)
    ) AS named
    WHERE runs.id = named.id AND runs.attempts = named.attempts AND runs.lease_epoch = named.epoch
        AND submitted_at < $1 AND ($2::text IS NULL OR queue = $2)
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
    RETURNING runs.id
),
forgotten AS (
    DELETE FROM redrive.attempts USING gone
    WHERE attempts.kind = 'run' AND attempts.unit_id = gone.id
    RETURNING attempts.id
)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM forgotten)
