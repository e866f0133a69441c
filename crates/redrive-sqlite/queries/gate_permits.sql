SELECT kind, unit_id, lease_epoch FROM live_permits WHERE gate = ?1 AND key = ?2 ORDER BY kind, unit_id LIMIT ?3
