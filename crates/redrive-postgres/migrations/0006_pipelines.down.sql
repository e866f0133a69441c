DROP VIEW redrive.stages_applied;
DROP TABLE redrive.samples;
DROP TABLE redrive.pipeline_runs;
