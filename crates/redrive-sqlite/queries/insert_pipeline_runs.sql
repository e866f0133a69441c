INSERT INTO pipeline_runs (pipeline, stages, rules, read_ahead, source, started_at, started_by)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
RETURNING id
