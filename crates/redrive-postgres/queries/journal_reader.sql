SELECT settled, seen, seen_at FROM redrive.journal_readers WHERE name = :name
