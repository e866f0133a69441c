-- Many names. A statement of its own after the insert, so that it sees what a transaction at the
-- same time has committed. LATERAL: see idempotent_runs.
SELECT item.id, item.upload, item.group_name, item.name, item.sha256
FROM unnest(:upload::text[], :group_name::text[], :name::text[]) AS asked (upload, group_name, name)
CROSS JOIN LATERAL (
    SELECT id, upload, group_name, name, sha256 FROM redrive.items
    WHERE upload = asked.upload AND group_name = asked.group_name AND name = asked.name
    LIMIT 1
) AS item
