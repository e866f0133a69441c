-- The permits of a unit whose lease ends (PostgreSQL: of many).
DELETE FROM gate_permits WHERE kind = ?1 AND unit_id = ?2 AND lease_epoch = ?3
RETURNING gate, key, unit_id, gate_epoch
