DELETE FROM pruning
