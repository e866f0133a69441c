-- Many names. A query of its own after the insert, so that it sees what a concurrent transaction has
-- committed. For LATERAL see idempotent_runs.
SELECT item.id, item.upload, item.group_name, item.name, item.sha256
FROM unnest(:upload::text[], :group_name::text[], :name::text[]) AS requested (upload, group_name, name)
CROSS JOIN LATERAL (
    SELECT id, upload, group_name, name, sha256 FROM redrive.items
    WHERE upload = requested.upload AND group_name = requested.group_name AND name = requested.name
    LIMIT 1
) AS item
