-- What dead letters died of, the most frequent first. The filter is that of samples_page.
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
    WHERE samples.status = 'dlq' AND ($3::text IS NULL OR $3 = 'dlq')
    AND samples.run_id BETWEEN coalesce($1::bigint, 0) AND coalesce($1, 9223372036854775807)
    AND ($2::text IS NULL OR run.pipeline = $2)
    AND ($4::text IS NULL
        OR CASE WHEN samples.data IS NULL THEN 'source' ELSE run.stages[samples.stage + 1] END = $4)
    AND ($5::text IS NULL OR strpos(samples.error_message, $5) > 0)
    AND ($6::text IS NULL OR samples.error_code = $6)
    AND ($7::text IS NULL OR samples.fingerprint = $7)
    GROUP BY samples.fingerprint, run.pipeline, stage_name, samples.error_code
    ORDER BY deaths DESC, first_id LIMIT $8::bigint
) AS cause
ORDER BY cause.deaths DESC, cause.first_id
