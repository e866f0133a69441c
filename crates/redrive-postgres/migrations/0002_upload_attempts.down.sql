ALTER TABLE redrive.items DROP COLUMN attempts_at_reset;
ALTER TABLE redrive.items DROP COLUMN upload_attempts;
