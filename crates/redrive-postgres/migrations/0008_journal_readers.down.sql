DROP TABLE redrive.journal_readers;
