-- PostgreSQL alone, where the rest of the backlog may read all runs. Of every category, or of the named
-- ones ($2): see backlog_of.
SELECT due_at FROM redrive.runs
WHERE queue = $1 AND due_at IS NOT NULL AND ($2::text[] IS NULL OR category = ANY ($2))
ORDER BY due_at LIMIT 1
