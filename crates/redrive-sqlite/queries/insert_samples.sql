-- Without RETURNING, which is a trigger, for which every page is copied before it is changed.
INSERT INTO samples
    (run_id, line, data, status, error_class, error_code, error_message, fingerprint, last_attempt_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
