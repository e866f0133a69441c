ALTER TABLE redrive.samples SET (fillfactor = 70);
