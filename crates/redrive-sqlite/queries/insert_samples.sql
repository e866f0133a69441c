-- No RETURNING: SQLite implements it as a trigger, and copies every page before a change.
INSERT INTO samples
    (run_id, line, data, status, error_class, error_code, error_message, fingerprint, last_attempt_at,
    last_failure_at, line_hash)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10)
