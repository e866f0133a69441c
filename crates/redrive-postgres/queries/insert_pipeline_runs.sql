INSERT INTO redrive.pipeline_runs (pipeline, stages, rules, read_ahead, source, started_at, started_by)
VALUES (:pipeline, :stages, :rules, :read_ahead, :source, :started_at, :started_by)
RETURNING id
