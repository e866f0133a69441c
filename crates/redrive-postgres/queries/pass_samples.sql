-- Many samples that a stage answered at their first attempt, with their rows of the ledger. finish_samples would do the
-- same, but takes every column of every sample and costs a third more. The samples are of one stage (:stage,
-- :stage_config_hash) and one worker (:worker). They end there (:ends), or continue at the next stage (:stage_place)
-- with empty counts: no operator has reset them at this stage. The rest is as in finish_samples. SQLite takes one sample
-- at a time, and has no such statement.
WITH passed AS (
    UPDATE redrive.samples AS sample SET
        status = CASE WHEN :ends::boolean THEN 'succeeded' ELSE 'pending' END,
        stage = :stage_place::bigint, data = given.data, gate_key = NULL,
        claim_stage = CASE WHEN given.keep_until IS NULL THEN :stage_place ELSE sample.claim_stage END,
        lease_owner = CASE WHEN given.keep_until IS NOT NULL THEN :worker::text END,
        lease_until = given.keep_until,
        lease_epoch = sample.lease_epoch + CASE WHEN given.keep_until IS NULL THEN 0 ELSE 1 END,
        claimed_at = given.ended_at, attempts = CASE WHEN :ends THEN 1 ELSE 0 END,
        first_attempt_at = CASE WHEN :ends THEN given.started_at END,
        last_attempt_at = CASE WHEN :ends THEN given.ended_at END,
        retry_count = 0, deferrals = 0, next_retry_at = NULL, error_class = NULL, error_code = NULL,
        error_message = NULL, fingerprint = NULL, skip_reason = NULL
    FROM (
        SELECT id, epoch, data, started_at, ended_at, place, CASE WHEN run_id = ANY (ARRAY(
            SELECT id FROM redrive.pipeline_runs WHERE id = ANY (:keeping_runs::bigint[]) AND status = 'running'
        )) THEN keep_until END AS keep_until
        FROM unnest(
            :id::bigint[], :epoch::bigint[], :run_id::bigint[], :data::text[], :started_at::timestamptz[],
            :ended_at::timestamptz[], :keep_until::timestamptz[]
        ) WITH ORDINALITY AS given (id, epoch, run_id, data, started_at, ended_at, keep_until, place)
        ORDER BY id LIMIT cardinality(:id)
    ) AS given
    WHERE sample.id = given.id AND sample.lease_epoch = given.epoch
        AND sample.lease_owner IS NOT NULL
    RETURNING given.id, given.started_at, given.ended_at, given.place, given.keep_until IS NOT NULL AS kept
),
ledger AS (
    INSERT INTO redrive.attempts (
        kind, unit_id, stage, stage_config_hash, attempt, counted, started_at, ended_at, outcome, worker
    )
    SELECT
        'sample', id, :stage::text, :stage_config_hash::text, 1, true, started_at, ended_at, 'success', :worker
    FROM passed
)
SELECT place, kept FROM passed
