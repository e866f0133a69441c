-- PostgreSQL only; SQLite inserts one partition at a time. Inserts many partitions in the given order, with
-- their work and journal entries, where there is no entry yet, and returns those. The join is by hash: the
-- rows have the same text except for the key and the unit.
WITH given AS MATERIALIZED (
    SELECT source, customer_id, query_name, logical_date, unit, place
    FROM unnest(
        :source::text[], :customer_id::text[], :query_name::text[], :logical_date::date[],
        :unit::text[]
    ) WITH ORDINALITY AS new (source, customer_id, query_name, logical_date, unit, place)
), made AS (
    INSERT INTO redrive.partition_state (source, customer_id, query_name, logical_date, updated_at)
    SELECT source, customer_id, query_name, logical_date, :at FROM given ORDER BY place
    ON CONFLICT (source, customer_id, query_name, logical_date) DO NOTHING
    RETURNING id, source, customer_id, query_name, logical_date
), requested AS (
    INSERT INTO redrive.partition_work
        (partition_id, source, customer_id, kind, lane, requested_at, requested_by, lease_epoch)
    SELECT id, source, customer_id, :kind, :lane, :at, :actor, 0 FROM made
), journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details)
    SELECT :at, :actor, :action, given.unit, :filter, :details
    FROM made
    JOIN given USING (source, customer_id, query_name, logical_date)
    ORDER BY given.place
)
SELECT id, source, customer_id, query_name, logical_date FROM made
