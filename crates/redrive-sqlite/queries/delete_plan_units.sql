-- The units of a plan up to an id.
DELETE FROM plan_units WHERE plan_id = ?1 AND unit_id <= ?2
