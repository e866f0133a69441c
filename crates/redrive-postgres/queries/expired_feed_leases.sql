SELECT id, lease_epoch, lease_owner, lease_until, NULL::timestamptz FROM redrive.pipeline_runs
WHERE lease_owner IS NOT NULL AND lease_until <= :now AND id > :after
    AND (:owner::text IS NULL OR lease_owner = :owner)
ORDER BY id LIMIT :limit::bigint
