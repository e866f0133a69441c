-- The prunes of a stretch of the journal: whether each entry is of a beginning.
SELECT action = 'prune.start' FROM journal
WHERE id > ?1 AND id <= ?2 AND (action = 'prune.start' OR action = 'prune.end') ORDER BY id
