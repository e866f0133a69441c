-- Many keys. A query of its own after the insert, so that it sees what a concurrent transaction has
-- committed. LATERAL, so that each key is looked up by index whatever statistics say.
SELECT run.id, run.queue, run.idempotency_key, run.category, run.payload
FROM unnest(:queue::text[], :idempotency_key::text[]) AS requested (queue, idempotency_key)
CROSS JOIN LATERAL (
    SELECT id, queue, idempotency_key, category, payload FROM redrive.runs
    WHERE queue = requested.queue AND idempotency_key = requested.idempotency_key
    LIMIT 1
) AS run
