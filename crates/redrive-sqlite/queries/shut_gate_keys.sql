-- The keys of gates (?1, a JSON array) that are not open, with the number of units that have permits.
SELECT gate, key, state, held, held_now FROM gate_states WHERE gate IN (SELECT value FROM json_each(?1)) AND status <> 'open'
