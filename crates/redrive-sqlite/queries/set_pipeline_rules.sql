UPDATE pipeline_runs SET rules = ?2 WHERE id = ?1
