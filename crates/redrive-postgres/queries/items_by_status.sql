SELECT status, count(*) FROM redrive.items GROUP BY status ORDER BY status
