-- The served runs (?1, a JSON array), at a stage (?2).
SELECT min((
    SELECT next_retry_at FROM samples
    WHERE run_id = served.value AND claim_stage = ?2 AND next_retry_at IS NOT NULL
    ORDER BY next_retry_at LIMIT 1
))
FROM json_each(?1) AS served
