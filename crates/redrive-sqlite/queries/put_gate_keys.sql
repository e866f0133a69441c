-- One row (PostgreSQL: many).
INSERT INTO gate_keys (gate, key, status, has_failures, state) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (gate, key) DO UPDATE SET
    status = excluded.status, has_failures = excluded.has_failures, state = excluded.state
