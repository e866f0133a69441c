DROP VIEW stages_applied;
DROP TABLE samples;
DROP TABLE pipeline_runs;
