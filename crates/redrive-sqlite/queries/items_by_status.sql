SELECT status, count(*) FROM items GROUP BY status ORDER BY status
