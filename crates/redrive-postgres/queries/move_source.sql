UPDATE redrive.pipeline_runs SET
    source_lines = :source_lines, source_bytes = :source_bytes, source_check = :source_check
WHERE id = :id
