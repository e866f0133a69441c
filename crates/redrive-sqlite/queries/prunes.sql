-- The prunes in a range of the journal: for each entry, whether it is the start of a prune.
SELECT action = 'prune.start' FROM journal
WHERE id > ?1 AND id <= ?2 AND (action = 'prune.start' OR action = 'prune.end') ORDER BY id
