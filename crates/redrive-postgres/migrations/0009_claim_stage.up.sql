-- A sample that goes on to its next stage with who holds it is found by no claim. So claims look for this
-- stage, which is that of the sample once nobody holds it, and going on changes no index.
ALTER TABLE redrive.samples ADD COLUMN claim_stage bigint NOT NULL DEFAULT 0;
UPDATE redrive.samples SET claim_stage = stage WHERE stage <> 0;

DROP INDEX redrive.samples_open;
DROP INDEX redrive.samples_due;
DROP INDEX redrive.samples_dlq;
DROP INDEX redrive.samples_skipped;
CREATE INDEX samples_open ON redrive.samples (run_id, claim_stage, id)
    WHERE status = 'pending' AND next_retry_at IS NULL;
CREATE INDEX samples_due ON redrive.samples (run_id, claim_stage, next_retry_at)
    WHERE next_retry_at IS NOT NULL;
CREATE INDEX samples_dlq ON redrive.samples (run_id) WHERE status = 'dlq';
CREATE INDEX samples_skipped ON redrive.samples (run_id) WHERE status = 'skipped';
