-- Many partitions, in the given order: pending, without a verdict. Returns no row for a partition that has an
-- entry. SQLite takes one at a time.
INSERT INTO redrive.partition_state (source, customer_id, query_name, logical_date, updated_at)
SELECT source, customer_id, query_name, logical_date, :updated_at
FROM unnest(:source::text[], :customer_id::text[], :query_name::text[], :logical_date::date[])
    WITH ORDINALITY AS new (source, customer_id, query_name, logical_date, place)
ORDER BY place
ON CONFLICT (source, customer_id, query_name, logical_date) DO NOTHING
RETURNING id, source, customer_id, query_name, logical_date
