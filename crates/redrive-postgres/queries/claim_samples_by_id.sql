-- Claims samples that a look at the gates has chosen. Skips those that other claims have locked or taken since.
WITH locked AS MATERIALIZED (
    SELECT ctid AS tid FROM redrive.samples
    WHERE id = ANY (:ids) AND status = 'pending' AND lease_owner IS NULL
        AND (next_retry_at IS NULL OR next_retry_at <= :now)
    LIMIT cardinality(:ids)
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.samples AS sample SET
    lease_owner = :owner, lease_epoch = sample.lease_epoch + 1, lease_until = :lease_until,
    claimed_at = :now, next_retry_at = NULL
FROM (SELECT * FROM locked LIMIT cardinality(:ids)) AS few WHERE sample.ctid = few.tid
RETURNING sample.id, sample.run_id, sample.data, sample.attempts, sample.lease_epoch,
    sample.retry_count, sample.deferrals, sample.first_attempt_at
