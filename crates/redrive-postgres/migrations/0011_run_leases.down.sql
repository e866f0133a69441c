DROP INDEX redrive.runs_held;
