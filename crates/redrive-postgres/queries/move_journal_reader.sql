UPDATE redrive.journal_readers SET settled = $4, seen = $5, seen_at = $6
WHERE name = $1 AND seen = $2 AND seen_at = $3
RETURNING id
