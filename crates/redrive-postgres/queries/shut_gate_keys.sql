-- The keys of gates that are not open, with the number of units that have permits.
SELECT gate, key, state, (
    SELECT count(*) FROM redrive.live_permits AS permit
    WHERE permit.gate = gate_keys.gate AND permit.key = gate_keys.key
)
FROM redrive.gate_keys WHERE gate = ANY (:name) AND status <> 'open'
