-- One pending partition. Returns no row if the partition exists.
INSERT INTO partition_state (source, customer_id, query_name, logical_date, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (source, customer_id, query_name, logical_date) DO NOTHING
RETURNING id
