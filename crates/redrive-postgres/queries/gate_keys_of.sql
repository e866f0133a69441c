-- The rows of gates and keys, with the number of units that have permits.
SELECT gate, key, state, held, held_now FROM redrive.gate_states
WHERE (gate, key) IN (SELECT * FROM unnest(:gate::text[], :key::text[]) AS named (gate, key))
