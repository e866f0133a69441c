-- The newest journal entry of each unit, without notes. The index has the hash of the unit.
SELECT named.unit, entry.action, entry.details
FROM unnest(:units::text[]) AS named (unit) CROSS JOIN LATERAL (
    SELECT action, details FROM redrive.journal
    WHERE hashtextextended(journal.unit, 0) = hashtextextended(named.unit, 0) AND journal.unit = named.unit
        AND action NOT LIKE '%.note'
    ORDER BY id DESC LIMIT 1
) AS entry
