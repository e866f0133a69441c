-- Many leases, locked in the order of their rows, as finishes do. Returns those that were still held. For the
-- LIMIT see finish_runs.
UPDATE redrive.samples AS sample SET lease_until = greatest(sample.lease_until, :lease_until)
FROM (
    SELECT * FROM unnest(:id::bigint[], :epoch::bigint[]) AS held (id, epoch)
    ORDER BY id LIMIT cardinality(:id)
) AS held
WHERE sample.id = held.id AND sample.lease_epoch = held.epoch AND sample.lease_owner IS NOT NULL
RETURNING sample.id, sample.lease_epoch
