-- The keys of gates that are not open, with the number of units that have permits.
SELECT gate, key, state, held, held_now FROM redrive.gate_states WHERE gate = ANY (:name) AND status <> 'open'
