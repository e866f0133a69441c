-- Rows of open keys that have none yet. In their order, so that no two hosts wait for each other.
INSERT INTO redrive.gate_keys (gate, key, state)
SELECT gate, key, :state FROM unnest(:gate::text[], :key::text[]) AS noted (gate, key) ORDER BY gate, key
ON CONFLICT (gate, key) DO NOTHING
