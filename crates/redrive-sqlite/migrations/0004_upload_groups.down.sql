ALTER TABLE items DROP COLUMN last_attempt;
DROP TABLE upload_groups;
