-- The dead letters by the time of death, the newest first. Reads every dead letter and keeps a page of them,
-- without their data.
SELECT samples.id, samples.run_id, run.pipeline, line,
    CASE WHEN data IS NOT NULL THEN '' END, samples.status, stage,
    run.stages ->> stage, attempts, attempts_at_reset, retry_count, deferrals, next_retry_at,
    first_attempt_at, last_attempt_at, error_class, error_code, error_message, fingerprint, skip_reason,
    samples.lease_owner, samples.lease_epoch, samples.lease_until, samples.last_failure_at
FROM samples INDEXED BY samples_dead CROSS JOIN pipeline_runs AS run ON run.id = samples.run_id
WHERE samples.status = 'dlq' AND {selection}
ORDER BY last_attempt_at DESC, samples.id DESC LIMIT ?1
