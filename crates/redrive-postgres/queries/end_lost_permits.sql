-- The permits of units that are no longer held under the lease that they had. A finish that is about to end one does it.
DELETE FROM redrive.gate_permits WHERE (kind, unit_id, gate) IN (
    SELECT kind, unit_id, gate FROM redrive.gate_permits AS permit
    WHERE gate = ANY (:name) AND NOT EXISTS (
        SELECT FROM redrive.live_permits AS live
        WHERE live.kind = permit.kind AND live.unit_id = permit.unit_id AND live.gate = permit.gate
    )
    FOR UPDATE SKIP LOCKED
)
