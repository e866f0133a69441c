-- The ledger of a unit that is gone. Refused, unless the table pruning names the entry that tells of it.
DELETE FROM attempts WHERE kind = ?1 AND unit_id = ?2
