-- A unit that has a permit of an earlier lease was lost, and its permit has not ended yet.
INSERT INTO redrive.gate_permits (kind, unit_id, gate, key, lease_epoch, gate_epoch)
SELECT :kind, given.* FROM unnest(
    :unit_id::bigint[], :gate::text[], :key::text[], :lease_epoch::bigint[], :gate_epoch::bigint[]
) AS given (unit_id, gate, key, lease_epoch, gate_epoch)
ON CONFLICT (kind, unit_id, gate) DO UPDATE SET
    key = excluded.key, lease_epoch = excluded.lease_epoch, gate_epoch = excluded.gate_epoch
