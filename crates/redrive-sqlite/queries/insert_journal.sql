-- One entry. A dedupe key that is there already changes nothing.
INSERT INTO journal (at, actor, action, unit, filter, details, dedupe_key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (dedupe_key) DO NOTHING
