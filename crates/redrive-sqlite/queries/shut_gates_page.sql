-- Rows that are not open of a gate (?1), or of all, after a gate and key (?2, ?3).
SELECT gate, key, state, held, held_now FROM gate_states
WHERE (gate, key) > (?2, ?3) AND (?1 IS NULL OR gate = ?1) AND status <> 'open'
ORDER BY gate, key LIMIT ?4
