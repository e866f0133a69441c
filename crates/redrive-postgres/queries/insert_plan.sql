INSERT INTO redrive.plans (action, options, selection, settings, created_at, created_by, reason)
VALUES (:action, :options, :selection, :settings, :created_at, :created_by, :reason)
RETURNING id
