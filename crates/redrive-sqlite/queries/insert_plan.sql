INSERT INTO plans (action, options, selection, settings, created_at, created_by, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
RETURNING id
