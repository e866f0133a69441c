-- Many samples. What was decided about earlier attempts stays. The answer is which places in the batch
-- applied, with what the journal is to say of them. The order is that of renewals; the LIMIT limits
-- nothing: see finish_runs.
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
