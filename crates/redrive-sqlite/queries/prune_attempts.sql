-- The ledger rows of a pruned unit. A trigger refuses this unless the table pruning names the
-- journal entry.
DELETE FROM attempts WHERE kind = ?1 AND unit_id = ?2
