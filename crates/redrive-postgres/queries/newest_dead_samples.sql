-- dead_samples_page by the time of death, the newest first. Reads every dead letter and keeps a page of
-- them, without their data.
SELECT
    samples.id, samples.run_id, run.pipeline, samples.line,
    CASE WHEN samples.data IS NOT NULL THEN 'null' END AS data, samples.status, samples.stage,
    run.stages[samples.stage + 1], samples.attempts, samples.attempts_at_reset, samples.retry_count,
    samples.deferrals, samples.next_retry_at, samples.first_attempt_at, samples.last_attempt_at,
    samples.error_class, samples.error_code, samples.error_message, samples.fingerprint,
    samples.skip_reason, samples.lease_owner, samples.lease_epoch, samples.lease_until
FROM redrive.samples JOIN redrive.pipeline_runs AS run ON run.id = samples.run_id
WHERE samples.status = 'dlq'
    AND (:run_id::bigint IS NULL OR samples.run_id = :run_id)
    AND (:status::text IS NULL OR :status = 'dlq')
    AND (:pipeline::text IS NULL OR run.pipeline = :pipeline)
    AND (:stage::text IS NULL
        OR CASE WHEN samples.data IS NULL THEN 'source' ELSE run.stages[samples.stage + 1] END = :stage)
    AND (:error::text IS NULL OR strpos(samples.error_message, :error) > 0)
    AND (:code::text IS NULL OR samples.error_code = :code)
    AND (:fingerprint::text IS NULL OR samples.fingerprint = :fingerprint)
    AND (:failed_since::timestamptz IS NULL OR samples.last_attempt_at >= :failed_since)
    AND (:failed_until::timestamptz IS NULL OR samples.last_attempt_at < :failed_until)
ORDER BY samples.last_attempt_at DESC, samples.id DESC LIMIT :limit::bigint
