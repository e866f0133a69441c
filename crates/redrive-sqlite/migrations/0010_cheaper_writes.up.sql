-- A rule that takes back its statement has SQLite copy every page first that the statement will change: for each
-- row of the ledger. This one ends it, and the writer takes back the whole command.
DROP TRIGGER attempts_no_replace;
CREATE TRIGGER attempts_no_replace BEFORE INSERT ON attempts
WHEN EXISTS (SELECT 1 FROM attempts WHERE id = NEW.id)
    OR EXISTS (
        SELECT 1 FROM attempts
        WHERE unit_id = NEW.unit_id AND kind = NEW.kind AND stage = NEW.stage
            AND attempt = NEW.attempt
    )
BEGIN SELECT RAISE(FAIL, 'the ledger is append-only'); END;
