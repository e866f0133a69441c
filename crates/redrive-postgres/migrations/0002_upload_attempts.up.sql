-- Rejections of an item, and what their count was when an operator last reset it.
ALTER TABLE redrive.items ADD COLUMN upload_attempts integer NOT NULL DEFAULT 0;
ALTER TABLE redrive.items ADD COLUMN attempts_at_reset integer NOT NULL DEFAULT 0;
