SELECT count(*) FROM journal WHERE dedupe_key = ?1 AND action = 'prune.start'
