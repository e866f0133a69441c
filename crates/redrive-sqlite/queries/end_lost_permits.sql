-- The permits of units that are no longer held under the lease that they had (gates: ?1, a JSON array).
DELETE FROM gate_permits
WHERE gate IN (SELECT value FROM json_each(?1)) AND NOT EXISTS (
    SELECT 1 FROM live_permits AS live
    WHERE live.kind = gate_permits.kind AND live.unit_id = gate_permits.unit_id AND live.gate = gate_permits.gate
)
