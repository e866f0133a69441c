SELECT settled, seen, seen_at FROM journal_readers WHERE name = ?1
