-- Notes what samples pass gates with, and makes them ready, unless another claim does it.
UPDATE redrive.samples AS sample SET gate_key = given.gate_key, next_retry_at = NULL
FROM (
    SELECT one.id, given.gate_key
    FROM unnest(:id::bigint[], :gate_key::text[]) AS given (id, gate_key)
    CROSS JOIN LATERAL (
        SELECT id FROM redrive.samples
        WHERE samples.id = given.id AND status = 'pending' AND lease_owner IS NULL
        FOR UPDATE SKIP LOCKED
    ) AS one
    LIMIT cardinality(:id)
) AS given
WHERE sample.id = given.id
