-- The permits of units whose leases end.
DELETE FROM redrive.gate_permits
WHERE kind = :kind AND (unit_id, lease_epoch) IN (
    SELECT * FROM unnest(:unit_id::bigint[], :lease_epoch::bigint[]) AS ended (unit_id, lease_epoch)
)
RETURNING gate, key, unit_id, gate_epoch
