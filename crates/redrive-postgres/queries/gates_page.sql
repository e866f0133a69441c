-- Rows of a gate (:gate), or of all.
SELECT gate, key, state, held, held_now FROM redrive.gate_states
WHERE (gate, key) > (:after_gate, :after_key) AND (:gate::text IS NULL OR gate = :gate)
ORDER BY gate, key LIMIT :limit::bigint
