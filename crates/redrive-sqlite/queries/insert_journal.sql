-- One entry. Changes nothing if the dedupe key exists.
INSERT INTO journal (at, actor, action, unit, filter, details, dedupe_key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (dedupe_key) DO NOTHING
