SELECT ready.id FROM redrive.runs AS run JOIN redrive.ready_runs AS ready
    ON ready.queue = run.queue AND ready.category = run.category AND ready.submitted_at = run.submitted_at
        AND ready.id = run.id
WHERE run.id = ANY (:ids) FOR UPDATE OF ready
