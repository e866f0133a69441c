-- Samples without their data: empty if there is some.
SELECT samples.id, samples.run_id, pipeline_runs.pipeline, line,
    CASE WHEN data IS NOT NULL THEN '' END, samples.status, stage,
    pipeline_runs.stages ->> stage, attempts, attempts_at_reset, retry_count, deferrals, next_retry_at,
    first_attempt_at, last_attempt_at, error_class, error_code, error_message, fingerprint, skip_reason,
    samples.lease_owner, samples.lease_epoch, samples.lease_until, samples.last_failure_at
FROM samples JOIN pipeline_runs ON pipeline_runs.id = samples.run_id
WHERE samples.id IN (SELECT value FROM json_each(?1)) ORDER BY samples.id
