-- Claims of one category (?5), which has nothing to be merged with; none of a paused queue. PostgreSQL
-- does without: its statements tell a lone category by themselves.
--
-- OR FAIL: otherwise every page is copied as it was, mostly into a file, in case a later run breaks a rule.
-- The writer undoes a whole command whose statement failed, so nothing of it stays.
UPDATE OR FAIL runs SET
    status = 'processing', ready = 0, next_retry_at = NULL,
    lease_owner = ?3, lease_epoch = lease_epoch + 1, lease_until = ?4
WHERE id IN (
    SELECT id FROM runs
    WHERE queue = ?1 AND category = ?5 AND ready = 1
    ORDER BY submitted_at, id
    -- Not a condition: it would be tried on every run that is ready.
    LIMIT CASE WHEN EXISTS (SELECT 1 FROM paused_queues WHERE queue = ?1) THEN 0 ELSE ?2 END
)
RETURNING id, category, payload, submitted_at, attempts, lease_epoch, retry_count, deferrals,
    first_attempt_at
