-- The row of an open key, if it has none yet (PostgreSQL: of many).
INSERT INTO gate_keys (gate, key, state) VALUES (?1, ?2, ?3) ON CONFLICT (gate, key) DO NOTHING
