ALTER TABLE redrive.items DROP COLUMN last_attempt;
DROP TABLE redrive.upload_groups;
