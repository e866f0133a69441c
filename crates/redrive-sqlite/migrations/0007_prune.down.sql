ALTER TABLE pipeline_runs DROP COLUMN pruned_dlq;
ALTER TABLE pipeline_runs DROP COLUMN pruned_skipped;
ALTER TABLE pipeline_runs DROP COLUMN pruned_succeeded;
DROP TRIGGER attempts_no_delete;
CREATE TRIGGER attempts_no_delete BEFORE DELETE ON attempts
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
DROP TABLE pruning;
