-- The same of dead letters alone, which are few: found by their own index.
SELECT
    samples.id, samples.run_id, run.pipeline, samples.line, samples.data, samples.status, samples.stage,
    run.stages[samples.stage + 1], samples.attempts, samples.attempts_at_reset, samples.retry_count,
    samples.deferrals, samples.next_retry_at, samples.first_attempt_at, samples.last_attempt_at,
    samples.error_class, samples.error_code, samples.error_message, samples.fingerprint,
    samples.skip_reason, samples.lease_owner, samples.lease_epoch, samples.lease_until
FROM redrive.samples JOIN redrive.pipeline_runs AS run ON run.id = samples.run_id
WHERE samples.status = 'dlq' AND samples.id > $8
    AND ($1::bigint IS NULL OR samples.run_id = $1)
    AND ($3::text IS NULL OR $3 = 'dlq')
    AND ($2::text IS NULL OR run.pipeline = $2)
    AND ($4::text IS NULL
        OR CASE WHEN samples.data IS NULL THEN 'source' ELSE run.stages[samples.stage + 1] END = $4)
    AND ($5::text IS NULL OR strpos(samples.error_message, $5) > 0)
    AND ($6::text IS NULL OR samples.error_code = $6)
    AND ($7::text IS NULL OR samples.fingerprint = $7)
ORDER BY samples.id LIMIT $9::bigint
