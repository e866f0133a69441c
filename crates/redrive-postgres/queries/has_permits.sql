-- Whether units have permits, which may be of other leases (SQLite asks whether there are any).
SELECT EXISTS (SELECT FROM redrive.gate_permits WHERE kind = :kind AND unit_id = ANY (:unit_id))
