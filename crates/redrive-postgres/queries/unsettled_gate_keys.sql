-- Those of the gates and keys for which a success means something.
SELECT gate, key FROM redrive.gate_keys
WHERE (gate, key) IN (SELECT * FROM unnest(:gate::text[], :key::text[]) AS named (gate, key))
    AND (status <> 'open' OR has_failures)
