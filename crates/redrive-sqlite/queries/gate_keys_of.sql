-- The row of a gate and key, with the number of units that have permits.
SELECT gate, key, state, (
    SELECT count(*) FROM live_permits AS permit
    WHERE permit.gate = gate_keys.gate AND permit.key = gate_keys.key
)
FROM gate_keys WHERE gate = ?1 AND key = ?2
