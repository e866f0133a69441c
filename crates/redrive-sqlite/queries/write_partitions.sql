-- One partition, which is locked since it was read.
UPDATE partition_state SET
    status = ?2, current_run_id = ?3, schema_version = ?4, record_count = ?5, attempt_count = ?6,
    error_message = ?7, updated_at = ?8
WHERE id = ?1
