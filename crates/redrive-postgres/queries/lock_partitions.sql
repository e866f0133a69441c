-- PostgreSQL only: SQLite has one writer. Many partitions, locked in the given order, which is the order of
-- the keys, so that two transactions cannot deadlock. For LATERAL see idempotent_runs.
SELECT state.id
FROM unnest(:source::text[], :customer_id::text[], :query_name::text[], :logical_date::date[])
    AS named (source, customer_id, query_name, logical_date)
CROSS JOIN LATERAL (
    SELECT id FROM redrive.partition_state
    WHERE source = named.source AND customer_id = named.customer_id
        AND query_name = named.query_name AND logical_date = named.logical_date
    FOR UPDATE
) AS state
