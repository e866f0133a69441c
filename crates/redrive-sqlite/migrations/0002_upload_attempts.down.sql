ALTER TABLE items DROP COLUMN attempts_at_reset;
ALTER TABLE items DROP COLUMN upload_attempts;
