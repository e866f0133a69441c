-- PostgreSQL only: SQLite has one writer. The work of partitions that are locked already, in the order in
-- which renewals lock it. A query of its own, so that it sees work that was inserted while the first query
-- waited. For LATERAL see idempotent_runs.
WITH requested AS MATERIALIZED (
    SELECT work.id
    FROM unnest(:source::text[], :customer_id::text[], :query_name::text[], :logical_date::date[])
        AS named (source, customer_id, query_name, logical_date)
    CROSS JOIN LATERAL (
        SELECT id FROM redrive.partition_state
        WHERE source = named.source AND customer_id = named.customer_id
            AND query_name = named.query_name AND logical_date = named.logical_date
        LIMIT 1
    ) AS state
    CROSS JOIN LATERAL (
        SELECT id FROM redrive.partition_work WHERE partition_id = state.id LIMIT 1
    ) AS work
    ORDER BY work.id
)
SELECT locked.id
FROM requested
CROSS JOIN LATERAL (
    SELECT id FROM redrive.partition_work WHERE id = requested.id FOR UPDATE
) AS locked
