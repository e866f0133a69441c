-- Claims from one category (?5), without a merge; nothing from a paused queue. PostgreSQL needs no
-- such query, because its claim detects a single category itself.
--
-- OR FAIL: with the default, ABORT, SQLite copies every page before a change, mostly to a file, in
-- case a later row violates a constraint. The writer rolls back the whole command after an error,
-- so nothing remains of a failed statement.
UPDATE OR FAIL runs SET
    status = 'processing', ready = 0, next_retry_at = NULL,
    lease_owner = ?3, lease_epoch = lease_epoch + 1, lease_until = ?4,
    claimed_at = ?6
WHERE id IN (
    SELECT id FROM runs
    WHERE queue = ?1 AND category = ?5 AND ready = 1
    ORDER BY submitted_at, id
    -- Not a condition, because it would be evaluated for every ready run.
    LIMIT CASE WHEN EXISTS (SELECT 1 FROM paused_queues WHERE queue = ?1) THEN 0 ELSE ?2 END
)
RETURNING id, category, payload, submitted_at, attempts, lease_epoch, retry_count, deferrals,
    first_attempt_at
