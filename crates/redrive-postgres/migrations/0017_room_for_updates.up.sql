-- A claim and each stage update all samples of a page in one transaction. With less than half of the page in use, all new
-- versions fit beside the old ones, and no index changes. Pages that are full already stay as they are.
ALTER TABLE redrive.samples SET (fillfactor = 45);
