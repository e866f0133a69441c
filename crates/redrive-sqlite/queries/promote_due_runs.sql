-- What waited for its retry or its start, and is due, may be claimed. The waiting ones that are not
-- due are never looked at.
UPDATE runs SET ready = 1, due_at = NULL
WHERE id IN (
    SELECT id FROM runs WHERE queue = ?1 AND due_at <= ?2 ORDER BY due_at LIMIT ?3
)
