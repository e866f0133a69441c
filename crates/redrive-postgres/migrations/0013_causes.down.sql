DROP INDEX redrive.runs_cause;
DROP INDEX redrive.runs_open;
DROP INDEX redrive.runs_not_passed;
DROP INDEX redrive.items_cause;
DROP INDEX redrive.items_open;
DROP INDEX redrive.samples_cause;
DROP TABLE redrive.partition_failures;
DROP TABLE redrive.cause_hours;
DROP TABLE redrive.causes;
ALTER TABLE redrive.runs DROP COLUMN error_code, DROP COLUMN fingerprint, DROP COLUMN last_failure_at;
ALTER TABLE redrive.items DROP COLUMN error_class, DROP COLUMN error_code, DROP COLUMN fingerprint,
    DROP COLUMN last_failure_at;
ALTER TABLE redrive.samples DROP COLUMN last_failure_at, ALTER COLUMN fingerprint TYPE text;
