-- The units of a locked plan up to an id.
DELETE FROM redrive.plan_units WHERE plan_id = :plan_id AND unit_id <= :last
