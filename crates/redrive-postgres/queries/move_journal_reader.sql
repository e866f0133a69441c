UPDATE redrive.journal_readers SET settled = :settled, seen = :seen, seen_at = :seen_at
WHERE name = :name AND seen = :old_seen AND seen_at = :old_seen_at
RETURNING id
