-- Rows of a gate (?1), or of all, after a gate and key (?2, ?3).
SELECT gate, key, state, (
    SELECT count(*) FROM live_permits AS permit
    WHERE permit.gate = gate_keys.gate AND permit.key = gate_keys.key
)
FROM gate_keys
WHERE (gate, key) > (?2, ?3) AND (?1 IS NULL OR gate = ?1)
ORDER BY gate, key LIMIT ?4
