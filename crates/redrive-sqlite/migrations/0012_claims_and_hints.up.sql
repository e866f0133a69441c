-- When the unit was claimed, so that the ledger can say when an attempt of a lost worker began.
ALTER TABLE runs ADD COLUMN claimed_at INTEGER;
ALTER TABLE samples ADD COLUMN claimed_at INTEGER;
-- What the line of the source was, to tell which lines a patched source changed.
ALTER TABLE samples ADD COLUMN line_hash INTEGER;
-- The wait that the server asked for, beside the one that was decided.
ALTER TABLE attempts ADD COLUMN asked_us INTEGER CHECK (asked_us >= 0);
