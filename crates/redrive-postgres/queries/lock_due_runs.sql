SELECT due.id FROM redrive.runs AS run
LEFT JOIN redrive.run_states AS state ON state.id = run.id
JOIN redrive.due_runs AS due
    ON due.queue = run.queue AND due.due_at = coalesce(state.next_retry_at, run.not_before) AND due.id = run.id
WHERE run.id = ANY (:ids) FOR UPDATE OF due
