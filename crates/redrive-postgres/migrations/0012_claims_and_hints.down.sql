ALTER TABLE redrive.runs DROP COLUMN claimed_at;
ALTER TABLE redrive.samples DROP COLUMN claimed_at;
ALTER TABLE redrive.samples DROP COLUMN line_hash;
ALTER TABLE redrive.attempts DROP COLUMN asked_us;
