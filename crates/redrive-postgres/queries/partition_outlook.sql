-- Of a source: whether something may be claimed, and whether something is held. What is held is found
-- among all that is held, of whatever source. Nothing becomes due by itself.
SELECT
    EXISTS (
        SELECT FROM redrive.partition_work
        WHERE source = :source AND lane IN ('fresh', 'backfill')
            AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
    ),
    EXISTS (
        SELECT FROM redrive.partition_work WHERE lease_owner IS NOT NULL AND source = :source
    )
