-- Many groups. Returns the places in the batch that applied, with the names for the journal. For the LIMIT
-- see finish_runs.
UPDATE redrive.upload_groups AS work SET lease_owner = NULL, lease_until = NULL
FROM (
    SELECT * FROM unnest(:id::bigint[], :epoch::bigint[]) WITH ORDINALITY AS given (id, epoch, place)
    LIMIT cardinality(:id)
) AS given
WHERE work.id = given.id AND work.lease_epoch = given.epoch AND work.lease_owner IS NOT NULL
RETURNING given.place, work.upload, work.group_name
