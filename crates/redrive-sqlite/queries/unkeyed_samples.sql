-- Samples at one stage of a run that a claim behind gates has to key, with their data: those that are due (?3), which become ready,
-- and the ready ones without a key.
SELECT id, data FROM (
    SELECT id, data FROM samples WHERE run_id = ?1 AND claim_stage = ?2 AND next_retry_at <= ?3
    ORDER BY next_retry_at LIMIT ?4
)
UNION ALL
SELECT id, data FROM (
    SELECT id, data FROM samples INDEXED BY samples_open
    WHERE run_id = ?1 AND claim_stage = ?2 AND gate_key IS NULL
        AND status = 'pending' AND next_retry_at IS NULL AND lease_owner IS NULL
    ORDER BY id LIMIT ?4
)
LIMIT ?4
