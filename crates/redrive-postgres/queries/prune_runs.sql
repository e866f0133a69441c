-- Removes locked runs that are as they were exported (:id, :attempts, :epoch), if prunable_runs still finds them,
-- their rows of the ledger, and their logs. Returns both numbers. For the LIMIT see finish_runs.
WITH gone AS MATERIALIZED (
    SELECT runs.id FROM (
        SELECT * FROM unnest(:id::bigint[], :attempts::bigint[], :epoch::bigint[])
            AS named (id, attempts, epoch)
        ORDER BY id LIMIT cardinality(:id)
    ) AS named
    JOIN redrive.run_records AS runs ON runs.id = named.id
    WHERE runs.attempts = named.attempts AND runs.lease_epoch = named.epoch
        AND submitted_at < :before AND (:queue::text IS NULL OR queue = :queue)
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
),
removed AS (
    DELETE FROM redrive.runs USING gone WHERE runs.id = gone.id RETURNING runs.id
),
removed_states AS (
    DELETE FROM redrive.run_states AS state USING gone WHERE state.id = gone.id
),
removed_attempts AS (
    DELETE FROM redrive.attempts USING gone
    WHERE attempts.kind = 'run' AND attempts.unit_id = gone.id
    RETURNING attempts.id
),
removed_logs AS (
    DELETE FROM redrive.attempt_logs USING gone
    WHERE attempt_logs.unit_id = gone.id AND attempt_logs.kind = 'run'
),
entry AS MATERIALIZED (
    SELECT pass.id AS pass_id, entry.*, (entry.run_id IN (SELECT id FROM gone)) IS TRUE AS removed
    FROM redrive.run_passes AS pass
    CROSS JOIN LATERAL unnest(
        pass.run_ids, pass.started_at, pass.ended_at, pass.results, pass.attempts, pass.attempts_at_reset,
        pass.first_attempt_at, pass.last_failure_at
    ) AS entry (run_id, started_at, ended_at, result, attempt, attempts_at_reset, first_attempt_at, last_failure_at)
    WHERE pass.block IN (SELECT id >> 8 FROM gone)
),
kept AS MATERIALIZED (
    SELECT
        pass_id, array_agg(run_id) AS run_ids, array_agg(started_at) AS started_at, array_agg(ended_at) AS ended_at,
        CASE WHEN count(result) > 0 THEN array_agg(result) END AS results,
        CASE WHEN count(attempt) > 0 THEN array_agg(attempt) END AS attempts,
        CASE WHEN count(attempt) > 0 THEN array_agg(attempts_at_reset) END AS attempts_at_reset,
        CASE WHEN count(attempt) > 0 THEN array_agg(first_attempt_at) END AS first_attempt_at,
        CASE WHEN count(attempt) > 0 THEN array_agg(last_failure_at) END AS last_failure_at
    FROM entry WHERE NOT removed GROUP BY pass_id
),
emptied AS (
    DELETE FROM redrive.run_passes AS pass
    WHERE pass.block IN (SELECT id >> 8 FROM gone) AND (pass.id IN (SELECT pass_id FROM kept)) IS NOT TRUE
),
reduced AS (
    UPDATE redrive.run_passes AS pass SET
        run_ids = kept.run_ids, started_at = kept.started_at, ended_at = kept.ended_at, results = kept.results,
        attempts = kept.attempts, attempts_at_reset = kept.attempts_at_reset, first_attempt_at = kept.first_attempt_at,
        last_failure_at = kept.last_failure_at
    FROM kept WHERE pass.id = kept.pass_id AND cardinality(pass.run_ids) > cardinality(kept.run_ids)
)
SELECT
    (SELECT count(*) FROM removed),
    (SELECT count(*) FROM removed_attempts) + (SELECT count(*) FROM entry WHERE removed)
