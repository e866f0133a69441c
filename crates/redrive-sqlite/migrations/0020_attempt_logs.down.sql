DROP TABLE attempt_logs;
