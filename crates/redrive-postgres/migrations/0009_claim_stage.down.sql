DROP INDEX redrive.samples_open;
DROP INDEX redrive.samples_due;
DROP INDEX redrive.samples_dlq;
DROP INDEX redrive.samples_skipped;
ALTER TABLE redrive.samples DROP COLUMN claim_stage;
CREATE INDEX samples_open ON redrive.samples (run_id, stage, id)
    WHERE status = 'pending' AND next_retry_at IS NULL;
CREATE INDEX samples_due ON redrive.samples (run_id, stage, next_retry_at)
    WHERE next_retry_at IS NOT NULL;
CREATE INDEX samples_dlq ON redrive.samples (run_id, stage) WHERE status = 'dlq';
CREATE INDEX samples_skipped ON redrive.samples (run_id, stage) WHERE status = 'skipped';
