-- The newest hour of each cause and kind stays: it tells when and where the cause was seen last.
DELETE FROM cause_hours WHERE hour < ?1 AND hour < (
    SELECT max(hour) FROM cause_hours AS each
        WHERE each.fingerprint = cause_hours.fingerprint AND each.kind = cause_hours.kind
)
