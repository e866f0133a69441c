-- PostgreSQL only. Those of some runs that are due, ready or held. The others have ended, and only operators change them.
SELECT run.id FROM redrive.runs AS run
LEFT JOIN redrive.run_states AS state ON state.id = run.id
WHERE run.id = ANY (:ids) AND (
    EXISTS (
        SELECT FROM redrive.ready_runs AS ready
        WHERE ready.queue = run.queue AND ready.category = run.category AND ready.submitted_at = run.submitted_at
            AND ready.id = run.id
    )
    OR EXISTS (
        SELECT FROM redrive.due_runs AS due
        WHERE due.queue = run.queue AND due.due_at = coalesce(state.next_retry_at, run.not_before) AND due.id = run.id
    )
    OR EXISTS (
        SELECT FROM redrive.run_claims AS claim
        WHERE run.id BETWEEN claim.first_run AND claim.last_run AND run.id = ANY (claim.run_ids)
    )
)
