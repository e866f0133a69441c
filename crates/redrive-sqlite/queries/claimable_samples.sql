-- The first samples at one stage of a run that are ready, of each of the keys (?3, a JSON array) at most so many (?4).
SELECT sample.id, sample.gate_key
FROM json_each(?3) AS allowed
CROSS JOIN samples AS sample ON sample.id IN (
    SELECT id FROM samples AS other INDEXED BY samples_open
    WHERE other.run_id = ?1 AND other.claim_stage = ?2 AND other.gate_key = allowed.value
        AND other.status = 'pending' AND other.next_retry_at IS NULL AND other.lease_owner IS NULL
    ORDER BY other.id LIMIT ?4
)
