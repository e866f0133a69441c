SELECT count(*) FROM redrive.journal WHERE dedupe_key = :prune_key AND action = 'prune.start'
