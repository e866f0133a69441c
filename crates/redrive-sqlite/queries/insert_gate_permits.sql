-- One permit (PostgreSQL: many). A unit that has a permit of an earlier lease was lost, and its permit has not ended yet.
INSERT INTO gate_permits (kind, unit_id, gate, key, lease_epoch, gate_epoch) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (kind, unit_id, gate) DO UPDATE SET
    key = excluded.key, lease_epoch = excluded.lease_epoch, gate_epoch = excluded.gate_epoch
