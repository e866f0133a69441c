-- Of running runs of a pipeline (:pipeline) with the same stages (:stages), or of one run (:run_id): whether
-- a sample or a source is ready, whether one is held, and when the next sample is due.
WITH live AS MATERIALIZED (
    SELECT id, source_done, lease_owner FROM redrive.pipeline_runs
    WHERE pipeline = :pipeline AND stages = :stages AND status = 'running'
        AND (:run_id::bigint IS NULL OR id = :run_id)
)
SELECT
    EXISTS (SELECT FROM live WHERE NOT source_done AND lease_owner IS NULL)
        OR EXISTS (
            SELECT FROM live CROSS JOIN LATERAL (
                SELECT FROM redrive.samples
                WHERE run_id = live.id AND status = 'pending' AND next_retry_at IS NULL
                    AND lease_owner IS NULL
                LIMIT 1
            ) AS ready
        ),
    EXISTS (SELECT FROM live WHERE lease_owner IS NOT NULL)
        OR EXISTS (
            SELECT FROM live CROSS JOIN LATERAL (
                SELECT FROM redrive.samples
                WHERE run_id = live.id AND status = 'pending' AND next_retry_at IS NULL
                    AND lease_owner IS NOT NULL
                LIMIT 1
            ) AS held
        ),
    (
        SELECT min(waiting.next_retry_at)
        FROM live CROSS JOIN LATERAL (
            SELECT next_retry_at FROM redrive.samples
            WHERE run_id = live.id AND next_retry_at IS NOT NULL
        ) AS waiting
    )
