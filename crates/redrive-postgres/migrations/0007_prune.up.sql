-- Finished runs and samples may be written down elsewhere and removed, and their rows of the ledger with
-- them. The ledger lets them go in a transaction whose setting redrive.pruning names an entry of the
-- journal that tells of it.
CREATE FUNCTION redrive.refuse_unless_pruning() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM redrive.journal
        WHERE dedupe_key = current_setting('redrive.pruning', true) AND action = 'prune.start'
    ) THEN
        RAISE EXCEPTION 'the ledger is append-only';
    END IF;
    RETURN NULL;
END
$$;

DROP TRIGGER attempts_append_only ON redrive.attempts;
CREATE TRIGGER attempts_append_only BEFORE UPDATE OR TRUNCATE ON redrive.attempts
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.refuse_change('ledger');
CREATE TRIGGER attempts_pruned_alone BEFORE DELETE ON redrive.attempts
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.refuse_unless_pruning();
CREATE TRIGGER attempts_kept BEFORE DELETE ON redrive.attempts
    FOR EACH ROW WHEN (OLD.kind NOT IN ('run', 'sample'))
    EXECUTE FUNCTION redrive.refuse_change('ledger');

-- Samples of a run that are gone; its counts still have them.
ALTER TABLE redrive.pipeline_runs
    ADD COLUMN pruned_succeeded bigint NOT NULL DEFAULT 0,
    ADD COLUMN pruned_skipped bigint NOT NULL DEFAULT 0,
    ADD COLUMN pruned_dlq bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT pipeline_runs_pruned_had_ended CHECK (
        pruned_succeeded BETWEEN 0 AND succeeded AND pruned_skipped BETWEEN 0 AND skipped
        AND pruned_dlq BETWEEN 0 AND dlq);

-- After a rollback they are known by what is missing.
UPDATE redrive.pipeline_runs AS run SET
    pruned_succeeded = succeeded - (
        SELECT count(*) FROM redrive.samples WHERE run_id = run.id AND samples.status = 'succeeded'
    ),
    pruned_skipped = skipped - (
        SELECT count(*) FROM redrive.samples WHERE run_id = run.id AND samples.status = 'skipped'
    ),
    pruned_dlq = dlq - (
        SELECT count(*) FROM redrive.samples WHERE run_id = run.id AND samples.status = 'dlq'
    )
WHERE EXISTS (SELECT FROM redrive.journal WHERE action = 'prune.start');
