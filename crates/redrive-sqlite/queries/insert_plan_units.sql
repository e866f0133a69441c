-- One unit. Changes nothing if the plan has it.
INSERT INTO plan_units (plan_id, unit_id, state, version, cause, refusal) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (plan_id, unit_id) DO NOTHING
