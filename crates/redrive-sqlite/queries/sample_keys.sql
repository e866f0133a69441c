-- The keys of samples at one stage of a run that are ready, found by skipping along the index.
WITH RECURSIVE present (gate_key) AS (
    SELECT (
        SELECT gate_key FROM samples INDEXED BY samples_open
        WHERE run_id = ?1 AND claim_stage = ?2 AND gate_key IS NOT NULL
            AND status = 'pending' AND next_retry_at IS NULL AND lease_owner IS NULL
        ORDER BY gate_key DESC LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT gate_key FROM samples INDEXED BY samples_open
        WHERE run_id = ?1 AND claim_stage = ?2 AND gate_key < present.gate_key
            AND status = 'pending' AND next_retry_at IS NULL AND lease_owner IS NULL
        ORDER BY gate_key DESC LIMIT 1
    )
    FROM present WHERE present.gate_key IS NOT NULL
)
SELECT gate_key FROM present WHERE gate_key IS NOT NULL
