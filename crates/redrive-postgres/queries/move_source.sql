UPDATE redrive.pipeline_runs SET source_lines = $2, source_bytes = $3, source_check = $4 WHERE id = $1
