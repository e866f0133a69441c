UPDATE redrive.pipeline_runs SET rules = :rules WHERE id = :id
