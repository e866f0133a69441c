-- Makes all due runs claimable that waited for a retry or their start; all of them, because any may
-- be the oldest. A run is promoted once per wait, and waiting runs that are not due are not read.
-- OR FAIL: see claim_runs_in.
UPDATE OR FAIL runs SET ready = 1, due_at = NULL
WHERE id IN (SELECT id FROM runs WHERE queue = ?1 AND due_at <= ?2)
