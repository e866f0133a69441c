SELECT count(*)
FROM redrive.samples JOIN redrive.pipeline_runs AS run ON run.id = samples.run_id
WHERE {selection}
