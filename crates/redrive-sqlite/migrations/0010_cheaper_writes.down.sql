DROP TRIGGER attempts_no_replace;
CREATE TRIGGER attempts_no_replace BEFORE INSERT ON attempts
WHEN EXISTS (SELECT 1 FROM attempts WHERE id = NEW.id)
    OR EXISTS (
        SELECT 1 FROM attempts
        WHERE unit_id = NEW.unit_id AND kind = NEW.kind AND stage = NEW.stage
            AND attempt = NEW.attempt
    )
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
