-- A source: whether a partition can be claimed, and whether one is held. Held partitions are
-- searched among the held ones of all sources. No partition becomes due by time.
SELECT
    EXISTS (
        SELECT 1 FROM partition_work
        WHERE source = ?1 AND lane IN ('fresh', 'backfill')
            AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
    ),
    EXISTS (
        SELECT 1 FROM partition_work INDEXED BY partition_work_held
        WHERE lease_owner IS NOT NULL AND source = ?1
    ),
    NULL
