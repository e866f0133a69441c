DELETE FROM plan_units WHERE plan_id = ?1 AND unit_id IN (SELECT unit_id FROM plan_units WHERE plan_id = ?1 LIMIT ?2)
