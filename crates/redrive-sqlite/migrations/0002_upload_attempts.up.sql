-- Rejections of an item, and what their count was when an operator last reset it.
ALTER TABLE items ADD COLUMN upload_attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE items ADD COLUMN attempts_at_reset INTEGER NOT NULL DEFAULT 0;
