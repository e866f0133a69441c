SELECT unit_id, state, version, cause, refusal, outcome, reason, outcome_at, new_cause, undo
FROM plan_units WHERE plan_id = ?1 AND unit_id > ?2 AND (?4 IS NULL OR outcome = ?4)
ORDER BY unit_id LIMIT ?3
