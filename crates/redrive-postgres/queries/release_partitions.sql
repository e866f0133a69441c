-- Many rows of work. The run that was started is never finished; the next claim starts another. Returns the
-- places in the batch that applied, with the key and run for the journal, whose text SQL cannot write. For
-- the LIMIT see finish_runs.
WITH held AS MATERIALIZED (
    SELECT given.place, work.id, work.partition_id, work.run_id
    FROM (
        SELECT * FROM unnest(:id::bigint[], :epoch::bigint[]) WITH ORDINALITY AS given (id, epoch, place)
        ORDER BY id LIMIT cardinality(:id)
    ) AS given
    CROSS JOIN LATERAL (
        SELECT id, partition_id, run_id FROM redrive.partition_work
        WHERE id = given.id AND lease_epoch = given.epoch AND lease_owner IS NOT NULL
        FOR UPDATE
    ) AS work
),
returned AS (
    UPDATE redrive.partition_work AS work SET
        lease_owner = NULL, lease_until = NULL, run_id = NULL
    FROM (SELECT * FROM held LIMIT cardinality(:id)) AS held WHERE work.id = held.id
    RETURNING held.place, held.partition_id, held.run_id
)
SELECT
    place, run_id, state.source, state.customer_id, state.query_name, state.logical_date
FROM returned
CROSS JOIN LATERAL (
    SELECT * FROM redrive.partition_state WHERE id = returned.partition_id LIMIT 1
) AS state
ORDER BY place
