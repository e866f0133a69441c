SELECT kind, unit_id, lease_epoch FROM redrive.live_permits WHERE gate = :gate AND key = :key
ORDER BY kind, unit_id LIMIT :limit::bigint
