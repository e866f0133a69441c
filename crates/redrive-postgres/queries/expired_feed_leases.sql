SELECT id, lease_epoch, lease_owner, lease_until, NULL::timestamptz FROM redrive.pipeline_runs
WHERE lease_owner IS NOT NULL AND lease_until <= :now AND id > :after ORDER BY id LIMIT :limit::bigint
