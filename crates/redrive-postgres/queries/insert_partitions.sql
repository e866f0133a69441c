-- Many partitions, in the order they were given: pending, never judged. A partition is missing in the
-- answer when there is an entry. SQLite takes one at a time.
INSERT INTO redrive.partition_state (source, customer_id, query_name, logical_date, updated_at)
SELECT source, customer_id, query_name, logical_date, $5
FROM unnest($1::text[], $2::text[], $3::text[], $4::date[])
    WITH ORDINALITY AS new (source, customer_id, query_name, logical_date, place)
ORDER BY place
ON CONFLICT (source, customer_id, query_name, logical_date) DO NOTHING
RETURNING id, source, customer_id, query_name, logical_date
