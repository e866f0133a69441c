-- Finished runs and samples may be written down elsewhere and removed, and their rows of the ledger with
-- them. The ledger lets them go while this table names an entry of the journal that tells of it; who
-- removes rows fills it and empties it again in one transaction.
CREATE TABLE pruning (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    journal_key TEXT NOT NULL REFERENCES journal (dedupe_key)
) STRICT;

DROP TRIGGER attempts_no_delete;
CREATE TRIGGER attempts_no_delete BEFORE DELETE ON attempts
WHEN OLD.kind NOT IN ('run', 'sample') OR NOT EXISTS (
    SELECT 1 FROM pruning JOIN journal ON journal.dedupe_key = pruning.journal_key
    WHERE journal.action = 'prune.start'
)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- Samples of a run that are gone; its counts still have them.
ALTER TABLE pipeline_runs ADD COLUMN
    pruned_succeeded INTEGER NOT NULL DEFAULT 0 CHECK (pruned_succeeded BETWEEN 0 AND succeeded);
ALTER TABLE pipeline_runs ADD COLUMN
    pruned_skipped INTEGER NOT NULL DEFAULT 0 CHECK (pruned_skipped BETWEEN 0 AND skipped);
ALTER TABLE pipeline_runs ADD COLUMN
    pruned_dlq INTEGER NOT NULL DEFAULT 0 CHECK (pruned_dlq BETWEEN 0 AND dlq);

-- After a rollback they are known by what is missing.
UPDATE pipeline_runs SET
    pruned_succeeded = succeeded - (
        SELECT count(*) FROM samples WHERE run_id = pipeline_runs.id AND status = 'succeeded'
    ),
    pruned_skipped = skipped - (
        SELECT count(*) FROM samples WHERE run_id = pipeline_runs.id AND status = 'skipped'
    ),
    pruned_dlq = dlq - (
        SELECT count(*) FROM samples WHERE run_id = pipeline_runs.id AND status = 'dlq'
    )
WHERE EXISTS (SELECT 1 FROM journal WHERE action = 'prune.start');
