-- The newest hour of each cause and kind stays: it tells when and where the cause was seen last.
WITH gone AS (
    DELETE FROM redrive.cause_hours AS old WHERE hour < :before::timestamptz AND hour < (
        SELECT max(hour) FROM redrive.cause_hours AS each
        WHERE each.fingerprint = old.fingerprint AND each.kind = old.kind
    )
    RETURNING hour
)
SELECT count(*) FROM gone
