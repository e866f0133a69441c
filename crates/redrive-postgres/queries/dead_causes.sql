-- The causes of dead letters, the most frequent first.
SELECT
    cause.fingerprint, cause.pipeline, cause.stage_name, cause.error_code,
    (SELECT error_message FROM redrive.samples WHERE id = cause.first_id),
    cause.first_id, cause.deaths, cause.last_attempt_at
FROM (
    SELECT
        samples.fingerprint, run.pipeline,
        CASE WHEN samples.attempts = 0 THEN 'source' ELSE run.stages[samples.stage + 1] END
            AS stage_name,
        samples.error_code, min(samples.id) AS first_id, count(*) AS deaths,
        max(samples.last_attempt_at) AS last_attempt_at
    FROM redrive.samples JOIN redrive.pipeline_runs AS run ON run.id = samples.run_id
    WHERE samples.status = 'dlq' AND {selection}
    GROUP BY samples.fingerprint, run.pipeline, stage_name, samples.error_code
    ORDER BY deaths DESC, first_id LIMIT :limit::bigint
) AS cause
ORDER BY cause.deaths DESC, cause.first_id
