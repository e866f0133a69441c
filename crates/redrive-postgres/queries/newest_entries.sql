-- The newest journal entry of each unit, without notes and without releases of units that were not started (:never_started has
-- the reasons). The index has the hash of the unit.
SELECT named.unit, entry.action, entry.details
FROM unnest(:units::text[]) AS named (unit) CROSS JOIN LATERAL (
    SELECT action, details FROM redrive.journal
    WHERE hashtextextended(journal.unit, 0) = hashtextextended(named.unit, 0) AND journal.unit = named.unit
        AND action NOT LIKE '%.note'
        AND NOT (action LIKE '%.handback' AND details::jsonb ->> 'why' = ANY (:never_started::text[]))
    ORDER BY id DESC LIMIT 1
) AS entry
