-- One unit that was expected to be changed.
UPDATE plan_units SET refusal = ?3 WHERE plan_id = ?1 AND unit_id = ?2 AND outcome IS NULL AND refusal IS NULL
RETURNING state, cause
