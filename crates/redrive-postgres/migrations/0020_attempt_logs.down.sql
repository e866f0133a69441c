DROP TABLE redrive.attempt_logs;
