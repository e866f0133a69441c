ALTER TABLE runs DROP COLUMN claimed_at;
ALTER TABLE samples DROP COLUMN claimed_at;
ALTER TABLE samples DROP COLUMN line_hash;
ALTER TABLE attempts DROP COLUMN asked_us;
