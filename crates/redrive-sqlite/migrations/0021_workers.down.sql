DROP TABLE attempt_counts;
DROP TABLE workers;
