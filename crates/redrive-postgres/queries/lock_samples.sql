-- PostgreSQL only: SQLite has one writer. Locks in the order of the ids, so that two transactions cannot
-- deadlock. Data is empty unless it is asked for.
SELECT
    samples.id, samples.run_id, run.pipeline, samples.line,
    CASE WHEN :with_data::boolean OR samples.data IS NULL THEN samples.data ELSE '' END, samples.status, samples.stage,
    run.stages[samples.stage + 1], samples.attempts, samples.attempts_at_reset, samples.retry_count,
    samples.deferrals, samples.next_retry_at, samples.first_attempt_at, samples.last_attempt_at,
    samples.error_class, samples.error_code, samples.error_message, samples.fingerprint,
    samples.skip_reason, samples.lease_owner, samples.lease_epoch, samples.lease_until, samples.last_failure_at
FROM redrive.samples JOIN redrive.pipeline_runs AS run ON run.id = samples.run_id
WHERE samples.id = ANY (:ids) ORDER BY samples.id FOR UPDATE OF samples
