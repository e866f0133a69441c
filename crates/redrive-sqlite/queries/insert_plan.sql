INSERT INTO plans (action, options, selection, created_at, created_by, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
RETURNING id
