-- The permits of units that are no longer held under the lease that they had. A finish that is about to end one does it. Nothing
-- reaps the lease of a group: when it has ended (:now, on the clock of leases), its items are no longer sent.
DELETE FROM redrive.gate_permits WHERE (kind, unit_id, gate) IN (
    SELECT kind, unit_id, gate FROM redrive.gate_permits AS permit
    WHERE gate = ANY (:name) AND (
        NOT EXISTS (
            SELECT FROM redrive.live_permits AS live
            WHERE live.kind = permit.kind AND live.unit_id = permit.unit_id AND live.gate = permit.gate
        )
        OR permit.kind = 'item' AND EXISTS (
            SELECT FROM redrive.items AS item JOIN redrive.upload_groups AS sent
                ON (sent.upload, sent.group_name) = (item.upload, item.group_name)
            WHERE item.id = permit.unit_id AND sent.lease_until <= :now
        )
    )
    FOR UPDATE SKIP LOCKED
)
