SELECT count(*)
FROM samples JOIN pipeline_runs AS run ON run.id = samples.run_id
WHERE {selection}
