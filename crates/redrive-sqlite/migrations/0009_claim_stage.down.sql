DROP INDEX samples_open;
DROP INDEX samples_due;
DROP INDEX samples_dlq;
DROP INDEX samples_skipped;
ALTER TABLE samples DROP COLUMN claim_stage;
CREATE INDEX samples_open ON samples (run_id, stage, id)
    WHERE status = 'pending' AND next_retry_at IS NULL;
CREATE INDEX samples_due ON samples (run_id, stage, next_retry_at)
    WHERE next_retry_at IS NOT NULL;
CREATE INDEX samples_dlq ON samples (run_id, stage) WHERE status = 'dlq';
CREATE INDEX samples_skipped ON samples (run_id, stage) WHERE status = 'skipped';
