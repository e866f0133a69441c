-- The filter is that of samples_page. Of one run or of all: as a range of runs, which an index finds.
SELECT count(*)
FROM redrive.samples JOIN redrive.pipeline_runs AS run ON run.id = samples.run_id
WHERE samples.run_id BETWEEN coalesce(:run_id::bigint, 0) AND coalesce(:run_id, 9223372036854775807)
    AND (:status::text IS NULL OR samples.status = :status)
    AND (:pipeline::text IS NULL OR run.pipeline = :pipeline)
    AND (:stage::text IS NULL
        OR CASE WHEN samples.data IS NULL THEN 'source' ELSE run.stages[samples.stage + 1] END = :stage)
    AND (:error::text IS NULL OR strpos(samples.error_message, :error) > 0)
    AND (:code::text IS NULL OR samples.error_code = :code)
    AND (:fingerprint::text IS NULL OR samples.fingerprint = :fingerprint)
    AND (:failed_since::timestamptz IS NULL OR samples.last_attempt_at >= :failed_since)
    AND (:failed_until::timestamptz IS NULL OR samples.last_attempt_at < :failed_until)
