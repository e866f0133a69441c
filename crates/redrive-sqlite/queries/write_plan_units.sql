-- One unit. Only a unit that becomes pending has what an undo returns.
UPDATE plan_units SET outcome = ?3, reason = ?4, outcome_at = ?5, new_cause = ?6, undo = coalesce(?7, undo)
WHERE plan_id = ?1 AND unit_id = ?2
