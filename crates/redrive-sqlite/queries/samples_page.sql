-- Without data (?3) it is not read.
SELECT samples.id, samples.run_id, run.pipeline, line,
    CASE WHEN ?3 OR data IS NULL THEN data ELSE '' END, samples.status, stage,
    run.stages ->> stage, attempts, attempts_at_reset, retry_count, deferrals, next_retry_at,
    first_attempt_at, last_attempt_at, error_class, error_code, error_message, fingerprint, skip_reason,
    samples.lease_owner, samples.lease_epoch, samples.lease_until, samples.last_failure_at
FROM samples CROSS JOIN pipeline_runs AS run ON run.id = samples.run_id
WHERE samples.id {beyond} ?1 AND {selection}
ORDER BY samples.id {order} LIMIT ?2
