-- The row of a gate and key, with the number of units that have permits.
SELECT gate, key, state, held, held_now FROM gate_states WHERE gate = ?1 AND key = ?2
