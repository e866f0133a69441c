-- When the unit was claimed, so that the ledger can say when an attempt of a lost worker began.
ALTER TABLE redrive.runs ADD COLUMN claimed_at timestamptz;
ALTER TABLE redrive.samples ADD COLUMN claimed_at timestamptz;
-- What the line of the source was, to tell which lines a patched source changed.
ALTER TABLE redrive.samples ADD COLUMN line_hash bigint;
-- The wait that the server asked for, beside the one that was decided.
ALTER TABLE redrive.attempts ADD COLUMN asked_us bigint CHECK (asked_us >= 0);
