ALTER TABLE redrive.run_claims ALTER COLUMN run_ids SET STORAGE EXTENDED;
DROP INDEX redrive.run_claims_epoch;
CREATE INDEX run_claims_epoch ON redrive.run_claims (epoch);
ALTER TABLE redrive.samples SET (fillfactor = 70);
