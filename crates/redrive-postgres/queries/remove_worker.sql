DELETE FROM redrive.workers WHERE id = :id
