INSERT INTO redrive.gate_keys (gate, key, status, has_failures, state)
SELECT * FROM unnest(:gate::text[], :key::text[], :status::text[], :has_failures::boolean[], :state::text[])
    AS given (gate, key, status, has_failures, state)
ON CONFLICT (gate, key) DO UPDATE SET
    status = excluded.status, has_failures = excluded.has_failures, state = excluded.state
