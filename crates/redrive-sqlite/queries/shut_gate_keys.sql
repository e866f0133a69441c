-- The keys of gates (?1, a JSON array) that are not open, with the number of units that have permits.
SELECT gate, key, state, (
    SELECT count(*) FROM live_permits AS permit
    WHERE permit.gate = gate_keys.gate AND permit.key = gate_keys.key
)
FROM gate_keys WHERE gate IN (SELECT value FROM json_each(?1)) AND status <> 'open'
