SELECT FROM redrive.runs AS run JOIN redrive.due_runs AS due
    ON due.queue = run.queue AND due.due_at = coalesce(run.next_retry_at, run.not_before) AND due.id = run.id
WHERE run.id = ANY (:ids) FOR UPDATE OF due
