-- Rows of a gate (:gate), or of all.
SELECT gate, key, state, (
    SELECT count(*) FROM redrive.live_permits AS permit
    WHERE permit.gate = gate_keys.gate AND permit.key = gate_keys.key
)
FROM redrive.gate_keys
WHERE (gate, key) > (:after_gate, :after_key) AND (:gate::text IS NULL OR gate = :gate)
ORDER BY gate, key LIMIT :limit::bigint
