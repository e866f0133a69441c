DROP TABLE journal_readers;
