ALTER TABLE redrive.pipeline_runs
    DROP CONSTRAINT pipeline_runs_pruned_had_ended,
    DROP COLUMN pruned_dlq, DROP COLUMN pruned_skipped, DROP COLUMN pruned_succeeded;
DROP TRIGGER attempts_kept ON redrive.attempts;
DROP TRIGGER attempts_pruned_alone ON redrive.attempts;
DROP TRIGGER attempts_append_only ON redrive.attempts;
CREATE TRIGGER attempts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON redrive.attempts
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.refuse_change('ledger');
DROP FUNCTION redrive.refuse_unless_pruning();
