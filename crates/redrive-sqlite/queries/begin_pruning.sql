INSERT INTO pruning (id, journal_key) VALUES (1, ?1)
