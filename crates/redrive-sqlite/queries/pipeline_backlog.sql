-- The served runs (?1, a JSON array): whether a sample is ready or a source can be read, whether
-- something is held, and when the next sample is due.
SELECT
    EXISTS (
        SELECT 1 FROM samples INDEXED BY samples_open
        WHERE run_id IN (SELECT value FROM json_each(?1)) AND status = 'pending'
            AND lease_owner IS NULL AND next_retry_at IS NULL
    ) OR EXISTS (
        SELECT 1 FROM pipeline_runs
        WHERE id IN (SELECT value FROM json_each(?1)) AND source_done = 0 AND lease_owner IS NULL
    ),
    EXISTS (
        SELECT 1 FROM samples INDEXED BY samples_open
        WHERE run_id IN (SELECT value FROM json_each(?1)) AND status = 'pending'
            AND lease_owner IS NOT NULL AND next_retry_at IS NULL
    ) OR EXISTS (
        SELECT 1 FROM pipeline_runs
        WHERE id IN (SELECT value FROM json_each(?1)) AND lease_owner IS NOT NULL
    ),
    (
        SELECT min(next_retry_at) FROM samples INDEXED BY samples_due
        WHERE run_id IN (SELECT value FROM json_each(?1)) AND next_retry_at IS NOT NULL
    )
