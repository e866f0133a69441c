-- A page of the ledger in the order of units. Of the attempts by which runs passed, as many blocks are
-- read as have a page of them: every row has one at least, and a block 256 at most.
WITH near AS MATERIALIZED (
    SELECT block, cardinality(run_ids) AS attempts FROM redrive.run_passes
    WHERE :kind::text = 'run' AND block >= :after_unit::bigint >> 8
    ORDER BY block LIMIT :limit::bigint + 512
),
last AS MATERIALIZED (
    SELECT max(block) AS block FROM (
        SELECT block, sum(attempts) OVER (ORDER BY block ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM near
    ) AS counted
    WHERE coalesce(before, 0) <= :limit + 256
)
SELECT * FROM (
    (
        SELECT
            kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
            class, code, message, fingerprint, cause, delay_us, worker, asked_us
        FROM redrive.attempts
        WHERE kind = :kind
            AND (unit_id, stage, attempt) > (:after_unit, :after_stage, :after_attempt)
        ORDER BY unit_id, stage, attempt LIMIT :limit
    )
    UNION ALL
    SELECT
        kind, unit_id, stage, stage_config_hash, attempt, counted, run_id, started_at, ended_at, outcome,
        class, code, message, fingerprint, cause, delay_us, worker, asked_us
    FROM redrive.pass_attempts
    WHERE block BETWEEN :after_unit >> 8 AND (SELECT block FROM last) AND kind = :kind
        AND (unit_id, stage, attempt) > (:after_unit, :after_stage, :after_attempt)
) AS attempt
ORDER BY unit_id, stage, attempt LIMIT :limit
