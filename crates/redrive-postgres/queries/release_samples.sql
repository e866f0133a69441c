-- Many samples. The counts of earlier attempts stay. Returns the places in the batch that applied, with the
-- stage for the journal. The order is that of renewals; for the LIMIT see finish_runs.
UPDATE redrive.samples AS sample SET
    claim_stage = sample.stage, lease_owner = NULL, lease_until = NULL
FROM (
    SELECT * FROM unnest(:id::bigint[], :epoch::bigint[]) WITH ORDINALITY AS given (id, epoch, place)
    ORDER BY id LIMIT cardinality(:id)
) AS given
WHERE sample.id = given.id AND sample.lease_epoch = given.epoch AND sample.lease_owner IS NOT NULL
RETURNING given.place, (
    SELECT stages[sample.stage + 1] FROM redrive.pipeline_runs WHERE id = sample.run_id
)
