-- Many keys. A statement of its own after the insert, so that it sees what a transaction at the
-- same time has committed. LATERAL, so that each is looked up by its key whatever statistics say.
SELECT run.id, run.queue, run.idempotency_key, run.category, run.payload
FROM unnest(:queue::text[], :idempotency_key::text[]) AS asked (queue, idempotency_key)
CROSS JOIN LATERAL (
    SELECT id, queue, idempotency_key, category, payload FROM redrive.runs
    WHERE queue = asked.queue AND idempotency_key = asked.idempotency_key
    LIMIT 1
) AS run
