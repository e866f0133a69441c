DROP TABLE redrive.attempt_counts;
DROP TABLE redrive.workers;
