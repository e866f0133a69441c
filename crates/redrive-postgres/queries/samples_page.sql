-- The page ends with the sample that reaches its most bytes.
SELECT
    id, run_id, pipeline, line, data, status, stage, stage_name, attempts, attempts_at_reset, retry_count,
    deferrals, next_retry_at, first_attempt_at, last_attempt_at, error_class, error_code, error_message,
    fingerprint, skip_reason, lease_owner, lease_epoch, lease_until, last_failure_at
FROM (
    SELECT *, sum(coalesce(octet_length(data), 0) + coalesce(octet_length(error_message), 0))
        OVER (ORDER BY id {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM (
        SELECT
            samples.id, samples.run_id, run.pipeline, samples.line,
            CASE WHEN :with_data::boolean OR samples.data IS NULL THEN samples.data ELSE '' END AS data,
            samples.status, samples.stage,
            run.stages[samples.stage + 1] AS stage_name, samples.attempts, samples.attempts_at_reset, samples.retry_count,
            samples.deferrals, samples.next_retry_at, samples.first_attempt_at, samples.last_attempt_at,
            samples.error_class, samples.error_code, samples.error_message, samples.fingerprint,
            samples.skip_reason, samples.lease_owner, samples.lease_epoch, samples.lease_until,
            samples.last_failure_at
        FROM redrive.samples JOIN redrive.pipeline_runs AS run ON run.id = samples.run_id
        WHERE samples.id {beyond} :after AND {selection}
        ORDER BY samples.id {order} LIMIT :limit::bigint
    ) AS matching
) AS page
WHERE coalesce(bytes_before, 0) < :max_bytes::bigint
ORDER BY id {order}
