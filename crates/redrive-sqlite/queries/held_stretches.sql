-- The stretches of 1024 ids with held runs.
SELECT DISTINCT id / 1024 FROM runs WHERE status = 'processing'
