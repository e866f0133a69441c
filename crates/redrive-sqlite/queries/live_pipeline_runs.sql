-- The runs that a worker serves: of a pipeline (?1) with the same stages (?2), or one run (?3).
SELECT id FROM pipeline_runs
WHERE pipeline = ?1 AND stages = ?2 AND status = 'running' AND (?3 IS NULL OR id = ?3)
ORDER BY id
