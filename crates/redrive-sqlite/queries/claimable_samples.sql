-- The samples at one stage of a run that could be claimed, each with the key that it passes gates with: the due ones (?3), the
-- longest waiting first, then the ready ones, by id. They are no more than the run reads ahead.
SELECT id, gate_key FROM (
    SELECT id, gate_key FROM samples WHERE run_id = ?1 AND claim_stage = ?2 AND next_retry_at <= ?3
    ORDER BY next_retry_at
)
UNION ALL
SELECT id, gate_key FROM (
    SELECT id, gate_key FROM samples INDEXED BY samples_open
    WHERE run_id = ?1 AND claim_stage = ?2 AND status = 'pending' AND lease_owner IS NULL
        AND next_retry_at IS NULL
    ORDER BY id
)
