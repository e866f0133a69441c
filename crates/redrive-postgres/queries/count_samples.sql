-- The filter is that of samples_page. Of one run or of all: as a stretch of runs, which an index finds.
SELECT count(*)
FROM redrive.samples JOIN redrive.pipeline_runs AS run ON run.id = samples.run_id
WHERE samples.run_id BETWEEN coalesce($1::bigint, 0) AND coalesce($1, 9223372036854775807)
    AND ($3::text IS NULL OR samples.status = $3)
    AND ($2::text IS NULL OR run.pipeline = $2)
    AND ($4::text IS NULL
        OR CASE WHEN samples.data IS NULL THEN 'source' ELSE run.stages[samples.stage + 1] END = $4)
    AND ($5::text IS NULL OR strpos(samples.error_message, $5) > 0)
    AND ($6::text IS NULL OR samples.error_code = $6)
    AND ($7::text IS NULL OR samples.fingerprint = $7)
