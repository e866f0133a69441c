-- PostgreSQL only: an idle worker runs it every second, and the whole backlog costs more. Of every category,
-- or of the named ones (:categories): see backlog_of.
SELECT due_at FROM redrive.due_runs
WHERE queue = :queue
    AND (:categories::text[] IS NULL OR category = ANY (:categories))
ORDER BY due_at LIMIT 1
