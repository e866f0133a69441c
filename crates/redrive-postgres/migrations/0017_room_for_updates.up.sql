-- A claim and each stage update all samples of a page in one transaction. With less than half of the page in use, all new
-- versions fit beside the old ones, and no index changes. Pages that are full already stay as they are.
ALTER TABLE redrive.samples SET (fillfactor = 45);

-- Whoever locks several claims locks them in the order of this index.
DROP INDEX redrive.run_claims_epoch;
CREATE INDEX run_claims_epoch ON redrive.run_claims (epoch, first_run, id);
-- Not compressed: 256 ids fit a page, and a claim is written and read within seconds.
ALTER TABLE redrive.run_claims ALTER COLUMN run_ids SET STORAGE PLAIN;
