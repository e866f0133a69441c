-- What waited for its retry or its start, and is due, may be claimed: all of it, because any of it may
-- be the oldest. Each run is promoted once per wait; the waiting ones that are not due are never
-- looked at. OR FAIL: see claim_runs_in.
UPDATE OR FAIL runs SET ready = 1, due_at = NULL
WHERE id IN (SELECT id FROM runs WHERE queue = ?1 AND due_at <= ?2)
