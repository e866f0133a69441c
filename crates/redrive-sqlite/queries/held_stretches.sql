-- Where runs are held, in stretches of 1024 ids.
SELECT DISTINCT id / 1024 FROM runs WHERE status = 'processing'
