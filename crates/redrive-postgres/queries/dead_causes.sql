-- The causes of dead letters, the most frequent first. The filter is that of samples_page.
SELECT
    cause.fingerprint, cause.pipeline, cause.stage_name, cause.error_code,
    (SELECT error_message FROM redrive.samples WHERE id = cause.first_id),
    cause.first_id, cause.deaths, cause.last_attempt_at
FROM (
    SELECT
        samples.fingerprint, run.pipeline,
        CASE WHEN samples.data IS NULL THEN 'source' ELSE run.stages[samples.stage + 1] END
            AS stage_name,
        samples.error_code, min(samples.id) AS first_id, count(*) AS deaths,
        max(samples.last_attempt_at) AS last_attempt_at
    FROM redrive.samples JOIN redrive.pipeline_runs AS run ON run.id = samples.run_id
    WHERE samples.status = 'dlq' AND (:status::text IS NULL OR :status = 'dlq')
    AND samples.run_id BETWEEN coalesce(:run_id::bigint, 0) AND coalesce(:run_id, 9223372036854775807)
    AND (:pipeline::text IS NULL OR run.pipeline = :pipeline)
    AND (:stage::text IS NULL
        OR CASE WHEN samples.data IS NULL THEN 'source' ELSE run.stages[samples.stage + 1] END = :stage)
    AND (:error::text IS NULL OR strpos(samples.error_message, :error) > 0)
    AND (:code::text IS NULL OR samples.error_code = :code)
    AND (:fingerprint::text IS NULL OR samples.fingerprint = :fingerprint)
    AND (:failed_since::timestamptz IS NULL OR samples.last_attempt_at >= :failed_since)
    AND (:failed_until::timestamptz IS NULL OR samples.last_attempt_at < :failed_until)
    GROUP BY samples.fingerprint, run.pipeline, stage_name, samples.error_code
    ORDER BY deaths DESC, first_id LIMIT :limit::bigint
) AS cause
ORDER BY cause.deaths DESC, cause.first_id
