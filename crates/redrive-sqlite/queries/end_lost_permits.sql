-- The permits of units that are no longer held under the lease that they had (gates: ?1, a JSON array). Nothing reaps the lease
-- of a group: when it has ended (?2, on the clock of leases), its items are no longer sent.
DELETE FROM gate_permits
WHERE gate IN (SELECT value FROM json_each(?1)) AND (
    NOT EXISTS (
        SELECT 1 FROM live_permits AS live
        WHERE live.kind = gate_permits.kind AND live.unit_id = gate_permits.unit_id AND live.gate = gate_permits.gate
    )
    OR kind = 'item' AND EXISTS (
        SELECT 1 FROM items JOIN upload_groups AS sent
            ON sent.upload = items.upload AND sent.group_name = items.group_name
        WHERE items.id = gate_permits.unit_id AND sent.lease_until <= ?2
    )
)
