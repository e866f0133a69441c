-- Of a source: whether work is claimable, and whether some is held. Held work is found among that of all
-- sources. No work becomes due by itself.
SELECT
    EXISTS (
        SELECT FROM redrive.partition_work
        WHERE source = :source
            AND kind IS NOT NULL AND lease_owner IS NULL AND paused_at IS NULL
    ),
    EXISTS (
        SELECT FROM redrive.partition_work WHERE lease_owner IS NOT NULL AND source = :source
    ),
    NULL::timestamptz
