SELECT id, data FROM redrive.samples WHERE id = ANY (:ids)
