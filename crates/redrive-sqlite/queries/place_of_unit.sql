-- Where people look for a unit (?2) of a kind (?1): a queue, an upload, a source, or a pipeline with a stage (?3).
SELECT CASE ?1
    WHEN 'run' THEN (SELECT queue FROM runs WHERE id = ?2)
    WHEN 'item' THEN (SELECT upload FROM items WHERE id = ?2)
    WHEN 'partition' THEN (SELECT source FROM partition_state WHERE id = ?2)
    ELSE (
        SELECT run.pipeline || '/' || ?3
        FROM samples CROSS JOIN pipeline_runs AS run ON run.id = samples.run_id WHERE samples.id = ?2
    )
END
