-- Many locked items that were reset, as they were before, unless their group is being uploaded. The lock on the group keeps
-- an upload from starting with them. Returns the items. For the LIMIT see finish_runs.
WITH uploads AS MATERIALIZED (
    SELECT DISTINCT upload, group_name FROM redrive.items WHERE id = ANY (:id::bigint[])
),
groups AS MATERIALIZED (
    SELECT held.upload, held.group_name, held.lease_owner FROM uploads CROSS JOIN LATERAL (
        SELECT * FROM redrive.upload_groups AS it
        WHERE it.upload = uploads.upload AND it.group_name = uploads.group_name
        FOR UPDATE
    ) AS held
)
UPDATE redrive.items AS item SET
    status = 'upload_giveup', attempts_at_reset = named.attempts_at_reset, updated_at = :updated_at::timestamptz
FROM (SELECT * FROM unnest(:id::bigint[], :attempts_at_reset::bigint[]) AS named (id, attempts_at_reset)
    LIMIT cardinality(:id)) AS named
WHERE item.id = named.id AND item.status = 'pending' AND NOT EXISTS (
    SELECT FROM groups
    WHERE groups.upload = item.upload AND groups.group_name = item.group_name AND groups.lease_owner IS NOT NULL
)
RETURNING item.id
